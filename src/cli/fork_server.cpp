#include "cli/fork_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kLongestCommand = 1 << 17;
constexpr int kNotPrepared = 125;
/// A terminal sends these signals to all processes of its group; the server ignores them.
constexpr std::array kForCommands{SIGINT, SIGTERM, SIGHUP};

using OutAndErr = std::array<int, 2>;

/// A message with two descriptors.
struct SocketMessage {
  explicit SocketMessage(void* text, size_t bytes) : part{text, bytes} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = rights.data();
    header.msg_controllen = rights.size();
  }
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(OutAndErr))> rights{};
  msghdr header{};
};

struct ForkCommand {
  nlohmann::json text;
  OutAndErr out_and_err{};
};

/// Returns false when the other end is closed.
bool receive(int socket, ForkCommand& command) {
  std::vector<char> text(kLongestCommand);
  SocketMessage message(text.data(), text.size());
  ssize_t bytes = 0;
  while ((bytes = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (bytes <= 0) return false;
  std::memcpy(command.out_and_err.data(), CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof command.out_and_err);
  command.text = nlohmann::json::parse(text.data(), text.data() + bytes);
  return true;
}

bool send_number(int socket, int number) {
  return ::send(socket, &number, sizeof number, MSG_NOSIGNAL) == ssize_t(sizeof number);
}

/// Sets output, folder and environment, as a new process would find them.
bool prepare(const ForkCommand& command) {
  for (int i = 0; i < 2; ++i)
    if (::dup2(command.out_and_err[size_t(i)], i == 0 ? STDOUT_FILENO : STDERR_FILENO) < 0) return false;
  if (command.text.contains("working_folder") &&
      ::chdir(command.text["working_folder"].get<std::string>().c_str()) != 0)
    return false;
  if (!command.text.contains("environment")) return true;
  std::vector<std::string> lines;
  for (const auto& [name, value] : command.text["environment"].items())
    lines.push_back(name + "=" + value.get<std::string>());
  set_environment(lines);
  return true;
}

[[noreturn]] void run_command(const ForkCommand& command, const RunProgram& run) {
  if (!prepare(command)) std::_Exit(kNotPrepared);
  auto words = command.text.at("words").get<std::vector<std::string>>();
  words.insert(words.begin(), "trireme");
  run_and_exit(std::move(words), run);
}

/// The calling process ends with the one that forked it.
void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

}  // namespace

void serve_forks(int socket, const RunProgram& run, bool hangs_up) {
  const pid_t self = ::getpid();
  ForkCommand command;
  while (receive(socket, command)) {
    const pid_t child = ::fork();
    if (child == 0) {
      end_with(self);
      for (const int number : kForCommands)
        if (number != SIGHUP || hangs_up) ::signal(number, SIG_DFL);
      ::close(socket);
      run_command(command, run);
    }
    for (const int descriptor : command.out_and_err) ::close(descriptor);
    int status = 0;
    const bool is_heard = send_number(socket, child);
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!is_heard || !send_number(socket, status)) return;
  }
}

ForkServer::ForkServer(const RunProgram& run) {
  std::array<int, 2> ends{};
  if (!has_one_thread() || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const bool hangs_up = !ignores_hangup();
  const pid_t parent = ::getpid();
  server_ = ::fork();
  if (server_ == 0) {
    end_with(parent);
    for (const int number : kForCommands) ::signal(number, SIG_IGN);
    ::close(ends[0]);
    serve_forks(ends[1], run, hangs_up);
    std::_Exit(0);
  }
  ::close(ends[1]);
  socket_ = ends[0];
}

ForkServer::~ForkServer() {
  if (socket_ >= 0) ::close(socket_);
  if (server_ > 0) ::kill(server_, SIGKILL);  // it may wait for a command, which ends with it
  while (server_ > 0 && ::waitpid(server_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<pid_t> ForkServer::start(const std::vector<std::string>& words, int out, int err) {
  std::string text = nlohmann::json{{"words", words}}.dump();
  SocketMessage message(text.data(), text.size());
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(OutAndErr));
  const OutAndErr out_and_err{out, err};
  std::memcpy(CMSG_DATA(rights), out_and_err.data(), sizeof out_and_err);
  const bool is_sent = ::sendmsg(socket_, &message.header, MSG_NOSIGNAL) == ssize_t(text.size());
  const std::optional<int> child = is_sent ? answer() : std::nullopt;
  is_gone_ = !child;
  return child;
}

int ForkServer::wait() {
  const std::optional<int> status = answer();
  if (status) return *status;
  is_gone_ = true;
  return SIGKILL;  // the command ends with the server
}

std::optional<int> ForkServer::answer() {
  int number = 0;
  ssize_t bytes = 0;
  while ((bytes = ::recv(socket_, &number, sizeof number, 0)) < 0 && errno == EINTR) {
  }
  return bytes == ssize_t(sizeof number) ? std::optional(number) : std::nullopt;
}

}  // namespace trireme
