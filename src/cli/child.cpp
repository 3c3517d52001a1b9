#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "base/seconds.h"
#include "cli/fork_server.h"
#include "cli/line_reader.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kChildPollMilliseconds = 50;
constexpr double kSecondsForChild = 3;  // after Ctrl-C, before the child is killed

pid_t start(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<char*> argv;
  std::string program = "trireme";
  argv.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0)
    fail_run({"compare", "cannot start a process", std::strerror(errno), "close other programs and try again"});
  if (child > 0) return child;
  // Only async-signal-safe calls from here on.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& arguments, double hard_limit, const std::atomic<bool>& interrupted,
                   const std::function<void(const nlohmann::json&)>& on_message, ForkServer* forks,
                   const std::function<void(std::string_view)>& on_warning) {
  auto out = make_pipe("compare"), err = make_pipe("compare");
  const std::optional<pid_t> fork =
      forks != nullptr && forks->is_there() ? forks->start(arguments, out[1], err[1]) : std::nullopt;
  const pid_t pid = fork ? *fork : start(arguments, out[1], err[1]);
  if (pid < 0)
    fail_run({"compare", "cannot start a process", "the system has too many processes",
              "close other programs and try again"});
  ::close(out[1]);
  ::close(err[1]);
  LineReader output(out[0]), errors(err[0]);
  ChildEnd end;
  const double started = steady_seconds();
  double interrupted_at = 0;
  bool output_open = true, errors_open = true, killed = false;
  while (output_open || errors_open) {
    std::array<pollfd, 2> fds{
        {{output_open ? output.fd() : -1, POLLIN, 0}, {errors_open ? errors.fd() : -1, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), kChildPollMilliseconds);
    if (fds[0].revents)
      output_open = output.read([&](const std::string& line) {
        auto message = nlohmann::json::parse(line, nullptr, false);
        if (message.is_object()) on_message(message);
      });
    if (fds[1].revents)
      errors_open = errors.read([&](const std::string& line) {
        end.last_words = line;
        if (const auto warning = warning_in(line); warning && on_warning) on_warning(*warning);
      });
    if (interrupted && interrupted_at == 0) {
      interrupted_at = steady_seconds();
      ::kill(pid, SIGINT);
    }
    end.killed_for_time = end.killed_for_time || (hard_limit > 0 && steady_seconds() - started > hard_limit);
    const bool late = interrupted_at > 0 && steady_seconds() - interrupted_at > kSecondsForChild;
    if (!killed && (late || end.killed_for_time)) {
      killed = true;
      ::kill(pid, SIGKILL);
    }
  }
  int status = fork ? forks->wait() : 0;
  while (!fork && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return end;
}

}  // namespace trireme
