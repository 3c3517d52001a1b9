#include "cli/forked_program.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

namespace trireme {
namespace {

/// Returns the names in a folder of /proc/self, as numbers.
std::vector<int> numbers_in(const char* folder) {
  std::vector<int> numbers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    numbers.push_back(std::atoi(entry.path().filename().c_str()));
  return numbers;
}

}  // namespace

bool has_one_thread() { return numbers_in("/proc/self/task").size() == 1; }

void flush_output() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
}

void set_environment(const std::vector<std::string>& lines) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
  ::clearenv();
  for (const std::string& line : lines) {
    const size_t equals = line.find('=');
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    if (equals != line.npos) ::setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
  }
}

void become_new_process(const std::vector<std::string>& environment) {
  for (const int descriptor : numbers_in("/proc/self/fd")) {
    const int flags = ::fcntl(descriptor, F_GETFD);  // -1: it was open only to list the folder
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) ::close(descriptor);
  }
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    if (action.sa_handler != SIG_DFL) ::signal(number, SIG_DFL);
  }
  set_environment(environment);
}

void run_and_exit(std::vector<std::string> words, const RunProgram& run) noexcept {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
  std::exit(run(int(words.size()), argv.data()));
}

bool ignores_hangup() {
  struct sigaction action {};
  return ::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace trireme
