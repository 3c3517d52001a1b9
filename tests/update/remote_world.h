// Replicas that communicate with a server over TCP, for tests: all in this process, one thread per replica.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trireme/error.h"
#include "update/remote/remote_client.h"
#include "update/remote/remote_server.h"

namespace trireme {

inline constexpr const char* kTestToken = "a token for tests only";
inline constexpr int64_t kTestMessage = 1 << 20;

inline RemoteServerOptions test_server_options(UpdatePolicy::WhenLost when_lost = UpdatePolicy::WhenLost::ends) {
  RemoteServerOptions options;
  options.token = kTestToken;
  options.largest_message = kTestMessage;
  options.when_lost = when_lost;
  return options;
}

inline RemoteClientOptions test_client_options(const RemoteServer& server, int wanted = -1) {
  return {
      .server = server.endpoint(), .token = kTestToken, .wanted = wanted, .about = "", .largest_message = kTestMessage};
}

/// Runs the server on its own thread until its clients have left or this object is destroyed.
class RunningServer {
 public:
  RunningServer(int clients, ShardServer* server, RemoteServerOptions options)
      : server_(clients, server, std::move(options)) {
    thread_ = std::thread([this] {
      try {
        server_.run({});
      } catch (const Error& error) {
        failure_ = error.what();
      }
    });
  }
  ~RunningServer() {
    server_.abort("the test is over");
    join();
  }
  RemoteServer& operator*() { return server_; }
  RemoteServer* operator->() { return &server_; }
  /// Waits for the server's end; returns its error, "" if it succeeded.
  std::string join() {
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

 private:
  RemoteServer server_;
  std::string failure_;
  std::thread thread_;
};

class RemoteWorld final : public HubWorld {
 public:
  explicit RemoteWorld(int replicas, ShardServer* server = nullptr, RemoteServerOptions options = test_server_options())
      : server_(replicas, server, std::move(options)) {
    for (int r = 0; r < replicas; ++r)
      clients_.push_back(std::make_unique<RemoteClient>(test_client_options(*server_, r)));
  }
  int replicas() const override { return int(clients_.size()); }
  Hub& hub(int replica) override { return clients_.at(size_t(replica))->hub(replica); }
  void abort(const std::string& reason) override { server_->abort(reason); }

 private:
  RunningServer server_;
  std::vector<std::unique_ptr<RemoteClient>> clients_;
};

}  // namespace trireme
