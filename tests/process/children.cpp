#include "children.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace trireme::test_support {
namespace {

constexpr std::chrono::milliseconds kPoll{5};
constexpr int kFailedChild = 100;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int run_role(const std::map<std::string, Role>& roles, const std::string& role, const ChildTask& task) {
  try {
    return roles.at(role)(task);
  } catch (const std::exception& error) {
    std::cout << "rank " << task.rank << " failed: " << error.what() << std::endl;
    return kFailedChild;
  }
}

/// Words as one message, each with a zero behind it.
std::string packed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  return text;
}

std::vector<std::string> unpacked(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string word; std::getline(parts, word, '\0');) words.push_back(word);
  return words;
}

/// The process that forks the children. They become children of the process of the tests, which is the reaper of its
/// descendants.
class Forks {
 public:
  explicit Forks(const std::map<std::string, Role>& roles) {
    std::array<int, 2> ends{};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("cannot prepare to fork");
    const pid_t tests = getpid();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      serve(ends[1], roles, tests);
    }
    close(ends[1]);
    socket_ = ends[0];
  }

  /// `words`: output file, role, rank, size, folder, and the task's words. Returns the child's process.
  pid_t start(const std::vector<std::string>& words) const {
    const std::string text = packed(words);
    pid_t child = 0;
    if (send(socket_, text.data(), text.size(), 0) != ssize_t(text.size()) ||
        recv(socket_, &child, sizeof child, 0) != ssize_t(sizeof child))
      throw std::runtime_error("cannot start " + words[1]);
    return child;
  }

 private:
  [[noreturn]] static void serve(int socket, const std::map<std::string, Role>& roles, pid_t tests) {
    std::vector<char> buffer(kLongestMessage);
    for (ssize_t bytes = 0; (bytes = recv(socket, buffer.data(), buffer.size(), 0)) > 0;) {
      const pid_t between = fork();
      if (between == 0) {
        if (fork() == 0) run(socket, unpacked({buffer.data(), size_t(bytes)}), roles, tests);
        _exit(0);
      }
      waitpid(between, nullptr, 0);
    }
    _exit(0);
  }

  /// Reports itself once it is a child of the tests, which wait for it then.
  [[noreturn]] static void run(int socket, const std::vector<std::string>& words,
                               const std::map<std::string, Role>& roles, pid_t tests) {
    for (int polls = 0; getppid() != tests; ++polls) {
      if (polls > kMostPolls) _exit(kFailedChild);  // the tests have ended
      std::this_thread::sleep_for(kPoll);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int output = open(words[0].c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (output < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) _exit(kFailedChild);
    const pid_t self = getpid();
    if (send(socket, &self, sizeof self, 0) != ssize_t(sizeof self)) _exit(kFailedChild);
    close(socket);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    std::exit(run_role(roles, words[1],
                       {std::stoi(words[2]), std::stoi(words[3]), words[4], {words.begin() + 5, words.end()}}));
  }

  static constexpr size_t kLongestMessage = 65536;
  static constexpr int kMostPolls = 500;
  int socket_ = -1;
};

const Forks* forks = nullptr;

}  // namespace

int process_main(int argc, char** argv, const std::map<std::string, Role>& roles) {
  static const Forks process(roles);
  forks = &process;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

Children::Children(const std::string& role, int size, const std::vector<std::string>& words) {
  std::string pattern = (std::filesystem::temp_directory_path() / "trireme_process_XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a folder " + pattern);
  folder_ = pattern;
  started_ = now();
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> task{output_of(rank), role, std::to_string(rank), std::to_string(size), folder()};
    task.insert(task.end(), words.begin(), words.end());
    pids_.push_back(forks->start(task));
  }
}

Children::~Children() {
  for (size_t rank = 0; rank < pids_.size(); ++rank) signal(static_cast<int>(rank), SIGKILL);
  for (pid_t pid : pids_)
    if (pid != 0) waitpid(pid, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path Children::output_of(int rank) const { return folder_ / ("output_" + std::to_string(rank)); }

void Children::signal(int rank, int signal) {
  if (pids_[size_t(rank)] != 0) kill(pids_[size_t(rank)], signal);
}

bool Children::wait_for_output(int rank, const std::string& text, double seconds) const {
  for (const double end = now() + seconds; now() < end; std::this_thread::sleep_for(kPoll))
    if (contents(output_of(rank)).find(text) != std::string::npos) return true;
  return false;
}

std::vector<ChildEnd> Children::wait(double seconds) {
  std::vector<ChildEnd> ends(pids_.size());
  const double deadline = now() + seconds;
  for (size_t running = pids_.size(); running > 0;) {
    running = 0;
    const bool late = now() > deadline;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] == 0) continue;
      if (late) {
        ends[rank].out_of_time = true;
        kill(pids_[rank], SIGKILL);
      }
      int status = 0;
      if (waitpid(pids_[rank], &status, late ? 0 : WNOHANG) == 0) {
        ++running;
        continue;
      }
      pids_[rank] = 0;
      ends[rank].seconds = now() - started_;
      if (WIFEXITED(status)) ends[rank].exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) ends[rank].signal = WTERMSIG(status);
    }
    if (running > 0) std::this_thread::sleep_for(kPoll);
  }
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].output = contents(output_of(static_cast<int>(rank)));
  return ends;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

}  // namespace trireme::test_support
