#include "planner/graph_files/child_task.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kLongestPollMs = 1000;

[[noreturn]] void run_and_exit(const std::function<std::string()>& task, int result_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the parent has ended, so the result has no reader
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) {
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
  }
  int code = 1;
  try {
    const std::string result = task();
    size_t written = 0;
    while (written < result.size()) {
      const ssize_t count = ::write(result_pipe, result.data() + written, result.size() - written);
      if (count < 0 && errno != EINTR) break;
      written += size_t(std::max<ssize_t>(count, 0));
    }
    if (written == result.size()) code = 0;
  } catch (const std::exception&) {  // reported by the exit code
  }
  ::_exit(code);  // skips buffers and static destructors, which belong to the parent
}

/// The bytes from the pipe until it is closed; nullopt if the deadline passes first.
std::optional<std::string> read_until(int pipe, const Deadline& deadline) {
  std::string bytes;
  std::array<char, 4096> buffer;
  while (!deadline.passed()) {
    const double left = deadline.seconds_left().value_or(1);
    pollfd poll_pipe{pipe, POLLIN, 0};
    if (::poll(&poll_pipe, 1, std::clamp(int(left * 1000) + 1, 1, kLongestPollMs)) <= 0) continue;
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count == 0) return bytes;
    if (count > 0) bytes.append(buffer.data(), size_t(count));
    else if (errno != EINTR) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> run_in_child(const std::function<std::string()>& task, const Deadline& deadline) {
  int ends[2];
  const auto fail = [](const char* what) {
    fail_run({"the integer program", what, std::generic_category().message(errno), "free some memory or processes"});
  };
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("a pipe cannot be created");
  const pid_t child = ::fork();
  if (child == 0) run_and_exit(task, ends[1]);
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    fail("a process cannot be started");
  }
  std::optional<std::string> result = read_until(ends[0], deadline);
  ::close(ends[0]);
  if (!result) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? result : std::nullopt;
}

}  // namespace trireme
