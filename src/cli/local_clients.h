// Clients of a server of replicas that it starts itself, on this machine.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace trireme {

/// Each is a process of this program, which a thread waits for.
class LocalClients {
 public:
  LocalClients() = default;
  /// Waits until they have ended; where that takes long, or the user has interrupted this program, they are ended.
  ~LocalClients();
  LocalClients(const LocalClients&) = delete;
  LocalClients& operator=(const LocalClients&) = delete;

  /// `arguments`: of `trireme join`, but for --client.
  void start(int clients, const std::vector<std::string>& arguments);

 private:
  std::vector<std::thread> threads_;
  std::atomic<int> running_ = 0;
  std::atomic<bool> ending_ = false;
};

}  // namespace trireme
