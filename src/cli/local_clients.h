// Clients that a server of replicas starts itself on this machine.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace trireme {

/// Each client is a process of this program; a thread waits for it.
class LocalClients {
 public:
  LocalClients() = default;
  /// Waits until the clients have ended. Ends them if that takes long or the user has interrupted this program.
  ~LocalClients();
  LocalClients(const LocalClients&) = delete;
  LocalClients& operator=(const LocalClients&) = delete;

  /// `arguments`: of `trireme join`, without --client.
  void start(int clients, const std::vector<std::string>& arguments);

 private:
  std::vector<std::thread> threads_;
  std::atomic<int> running_ = 0;
  std::atomic<bool> ending_ = false;
};

}  // namespace trireme
