// A server on the loopback address for tests of downloads. It records the Range header of every request.
#pragma once

#include <httplib.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trireme::test_support {

class LocalServer {
 public:
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;

  /// `handle` answers every GET. httplib applies ranges if the handler sets a body and no status.
  explicit LocalServer(Handler handle) {
    server_.Get(".*", [this, handle](const httplib::Request& request, httplib::Response& response) {
      {
        std::lock_guard lock(mutex_);
        paths_.push_back(request.path);
        ranges_.push_back(request.get_header_value("Range"));
      }
      handle(request, response);
    });
    server_.set_keep_alive_max_count(1);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~LocalServer() {
    server_.stop();
    thread_.join();
  }

  std::string url(const std::string& path) const { return "http://127.0.0.1:" + std::to_string(port_) + path; }
  std::vector<std::string> ranges() const {
    std::lock_guard lock(mutex_);
    return ranges_;
  }
  std::vector<std::string> paths() const {
    std::lock_guard lock(mutex_);
    return paths_;
  }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<std::string> ranges_;
  std::vector<std::string> paths_;
};

}  // namespace trireme::test_support
