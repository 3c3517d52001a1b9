// Ranks as real processes: the test program starts itself once per rank with a hidden flag and collects how they end.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trireme::test_support {

/// What a child learns from its arguments.
struct ChildTask {
  int rank = 0;
  int size = 1;
  std::string folder;  ///< shared by the children of one test, removed afterwards
  std::vector<std::string> words;
  std::string rendezvous_file() const { return folder + "/rendezvous"; }
};

using Role = std::function<int(const ChildTask&)>;

/// A test program's main: plays the role that a parent asked for (its result is the exit code), else runs the tests. An
/// exception is printed and becomes exit code 100.
int process_main(int argc, char** argv, const std::map<std::string, Role>& roles);

struct ChildEnd {
  int exit_code = -1;  ///< -1 when a signal or the time limit ended it
  int signal = 0;
  bool out_of_time = false;
  double seconds = 0;  ///< since the start
  std::string output;  ///< stdout and stderr
};

/// Children of one role, ranks 0 to size - 1. A child that still runs at the end is killed.
class Children {
 public:
  Children(const std::string& role, int size, const std::vector<std::string>& words = {});
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  std::string folder() const { return folder_.string(); }
  void signal(int rank, int signal);
  /// False when it did not write `text` within the time.
  bool wait_for_output(int rank, const std::string& text, double seconds) const;
  /// Kills those that need more than `seconds` from now.
  std::vector<ChildEnd> wait(double seconds);

 private:
  pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& output) const;
  std::filesystem::path output_of(int rank) const;

  std::filesystem::path folder_;
  std::vector<pid_t> pids_;  // 0 once it has ended
  double started_ = 0;
};

/// A port of the loopback interface that was free a moment ago.
int free_port();

}  // namespace trireme::test_support
