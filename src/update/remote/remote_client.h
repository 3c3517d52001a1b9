// A replica that is a process: its end of the connection to the server (remote_server.h).
//
// It has no thread of its own: arrived messages are read when the replica makes a request or begins a step. Meanwhile
// ZeroMQ's threads send queued messages and answer heartbeats.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/rendezvous/wire.h"
#include "trireme/error.h"
#include "update/hub/hub_world.h"
#include "update/remote/message.h"

namespace trireme {

struct RemoteClientOptions {
  std::string server;  ///< "tcp://host:port"
  std::string token;
  int wanted = -1;              ///< the client's number; -1: any
  std::string about;            ///< what the client will train, for RemoteServerOptions::differs
  int64_t largest_message = 0;  ///< maximum bytes of tensors that the server may send at once
  WireHeartbeat heartbeat = {};
  double patience = 10;  ///< seconds that the server may take to answer
};

/// The connection broke or the server is gone. Joining again may help.
class ServerLost : public Error {
 public:
  using Error::Error;
};

class RemoteHub;

/// The world of one client. Used by the thread that runs it only, except abort.
class RemoteClient final : public HubWorld {
 public:
  /// Joins the server. Errors (user): a malformed address, a token that the server does not accept, a refusal by the
  /// server. Throws ServerLost if no server answers.
  explicit RemoteClient(RemoteClientOptions options);
  ~RemoteClient() override;

  int number() const { return number_; }
  const std::string& welcome() const { return welcome_; }
  int replicas() const override { return replicas_; }
  /// Returns the client's own hub.
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override;
  /// Runs `body` for this client, on this thread.
  void run(const std::function<void(Hub&)>& body) override;
  /// Returns empty counts for other clients.
  HubCounts counts(int replica) override;

 private:
  friend class RemoteHub;

  void join();
  void send(const Message& message) { wire_.send(encode(message)); }
  /// Handles arrived messages. Waits up to `seconds` for the first.
  void take(double seconds);
  /// Throws if the run has ended, for any reason.
  void check() const;
  void wait_for_start();
  Message wait_for_answer(uint64_t ticket);

  const RemoteClientOptions options_;
  ClientWire wire_;
  int number_ = -1, replicas_ = 0;
  std::string welcome_;
  bool has_started_ = false, joined_late_ = false, is_first_ = false;
  int64_t first_step_ = 0;
  double clock_ = 0;                     ///< value of the server's clock when the steady clock was 0
  std::map<uint64_t, Message> answers_;  ///< by ticket
  std::string ended_, refused_;          ///< reasons that the server gave
  std::unique_ptr<RemoteHub> hub_;

  mutable Mutex mutex_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
