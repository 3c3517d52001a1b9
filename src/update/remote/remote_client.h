// A replica that is a process: its end of the connection to the server (remote_server.h).
//
// No thread of its own: what comes is read when the replica asks for something or begins a step. ZeroMQ's threads send
// what was given to them and answer heartbeats meanwhile.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "comm/rendezvous/wire.h"
#include "update/hub.h"
#include "update/remote/message.h"

namespace trireme {

struct RemoteClientOptions {
  std::string server;  ///< "tcp://host:port"
  std::string token;
  int wanted = -1;              ///< the client's number; -1: any
  std::string about;            ///< what it is about to train, for the server's RemoteServerOptions::differs
  int64_t largest_message = 0;  ///< bytes of tensors that the server may send at once
  WireHeartbeat heartbeat = {};
  double patience = 10;  ///< seconds: that the server may take to answer
};

/// The connection broke, or the server is gone: joining again may help.
class ServerLost : public Error {
 public:
  using Error::Error;
};

class RemoteHub;

/// The world as one client sees it. Belongs to the thread that runs it, but for abort.
class RemoteClient final : public HubWorld {
 public:
  /// Joins. Errors (user): an address that is none, a token that the server does not take, a server that says no.
  /// ServerLost: nobody answers.
  explicit RemoteClient(RemoteClientOptions options);
  ~RemoteClient() override;

  int number() const { return number_; }
  const std::string& welcome() const { return welcome_; }
  int replicas() const override { return replicas_; }
  /// The client's own.
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override;
  /// Runs `body` for this client, on this thread.
  void run(const std::function<void(Hub&)>& body) override;
  /// Of the others nothing is known here.
  HubCounts counts(int replica) override;

 private:
  friend class RemoteHub;

  void join();
  void send(const Message& message) { wire_.send(encode(message)); }
  /// What has come; waits up to `seconds` for something.
  void take(double seconds);
  /// Throws where the run has ended, for whatever reason.
  void check() const;
  void wait_for_start();
  Message wait_for_answer(uint64_t ticket);

  const RemoteClientOptions options_;
  ClientWire wire_;
  int number_ = -1, replicas_ = 0;
  std::string welcome_;
  bool has_started_ = false, came_late_ = false, is_first_ = false;
  int64_t first_step_ = 0;
  double clock_ = 0;                     ///< what the server's clock showed when the steady clock showed 0
  std::map<uint64_t, Message> answers_;  ///< by ticket
  std::string ended_, refused_;          ///< by the server, why
  std::unique_ptr<RemoteHub> hub_;

  mutable Mutex mutex_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
