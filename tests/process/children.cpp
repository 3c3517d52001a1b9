#include "children.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace trireme::test_support {
namespace {

constexpr std::chrono::milliseconds kPoll{10};
constexpr int kFailedChild = 100;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int process_main(int argc, char** argv, const std::map<std::string, Role>& roles) {
  if (argc < 6 || std::string(argv[1]) != "--child") {
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  ChildTask task{std::stoi(argv[3]), std::stoi(argv[4]), argv[5], {argv + 6, argv + argc}};
  try {
    return roles.at(argv[2])(task);
  } catch (const std::exception& error) {
    std::cout << "rank " << task.rank << " failed: " << error.what() << std::endl;
    return kFailedChild;
  }
}

Children::Children(const std::string& role, int size, const std::vector<std::string>& words) {
  std::string pattern = (std::filesystem::temp_directory_path() / "trireme_process_XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a folder " + pattern);
  folder_ = pattern;
  started_ = now();
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> arguments{"--child", role, std::to_string(rank), std::to_string(size), folder()};
    arguments.insert(arguments.end(), words.begin(), words.end());
    pids_.push_back(start(arguments, output_of(rank)));
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

pid_t Children::start(const std::vector<std::string>& arguments, const std::filesystem::path& output) const {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + program);
  return pid;
}

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
