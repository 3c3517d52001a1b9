// One contract, every backend: runs a function per rank, each on a thread of its own, over a chosen backend.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/gloo/gloo.h"
#include "support/ranks.h"

namespace trireme::testing {

enum class Backend { local, gloo };

inline std::string name_of(Backend backend) { return backend == Backend::local ? "local" : "gloo"; }

/// Where the ranks of one gloo world meet; removed with the object.
class MeetingFile {
 public:
  MeetingFile() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("trireme_meeting_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::remove(path_);
  }
  ~MeetingFile() { std::filesystem::remove(path_); }
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// As run_ranks(n, body): a rank that throws aborts the world; the exception that came first is thrown again.
template <class Body>
void run_gloo_ranks(int n, Body body, double timeout_seconds = 30) {
  const MeetingFile meeting;
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator;
      try {
        communicator = gloo_communicator(
            {.rank = rank, .size = n, .store_file = meeting.path(), .timeout_seconds = timeout_seconds});
        body(*communicator);
      } catch (const std::exception& error) {
        {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        if (communicator) communicator->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

template <class Body>
void run_ranks(Backend backend, int n, Body body) {
  if (backend == Backend::local) {
    run_ranks(n, body);
  } else if (gloo_available()) {
    run_gloo_ranks(n, body);
  } else {
    GTEST_SKIP() << "this build has no gloo";
  }
}

}  // namespace trireme::testing
