// Runs ranks as processes and collects the results. A process that has loaded the libraries and has one thread forks
// for each rank, because loading them takes longer than most tests.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trireme::test_support {

/// What a child process gets by its arguments.
struct ChildTask {
  int rank = 0;
  int size = 1;
  std::string folder;  ///< shared by the children of one test, removed afterwards
  std::vector<std::string> words;
  std::string rendezvous_file() const { return folder + "/rendezvous"; }
};

using Role = std::function<int(const ChildTask&)>;

/// The main of a test program: runs the tests. A child runs the role that the test asked for and returns its result as
/// exit code, 100 after an exception.
int process_main(int argc, char** argv, const std::map<std::string, Role>& roles);

struct ChildEnd {
  int exit_code = -1;  ///< -1 if a signal or the time limit ended it
  int signal = 0;
  bool out_of_time = false;
  double seconds = 0;  ///< since the start
  std::string output;  ///< stdout and stderr
};

/// Child processes with one role, ranks 0 to size - 1. The destructor kills those that still run.
class Children {
 public:
  Children(const std::string& role, int size, const std::vector<std::string>& words = {});
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  std::string folder() const { return folder_.string(); }
  void signal(int rank, int signal);
  /// False if the child did not write `text` within the time.
  bool wait_for_output(int rank, const std::string& text, double seconds) const;
  /// Waits for all children; kills those that run longer than `seconds` from now.
  std::vector<ChildEnd> wait(double seconds);

 private:
  std::filesystem::path output_of(int rank) const;

  std::filesystem::path folder_;
  std::vector<pid_t> pids_;  // 0 after the child has ended
  double started_ = 0;
};

/// A port of the loopback interface that was free a moment ago.
int free_port();

}  // namespace trireme::test_support
