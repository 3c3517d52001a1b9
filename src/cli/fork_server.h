// Starts this program again without loading its libraries again, which takes half a second of processor time: a process
// that has one thread and has done nothing yet forks for every command.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/forked_program.h"

namespace trireme {

/// Serves commands from a Unix socket of whole messages (SOCK_SEQPACKET) until its other end is closed. A command is a
/// JSON object with "words" and optionally "working_folder" and "environment"; the descriptors of standard output and
/// standard error are sent with it. Answers with the number of the process, then with its exit status as of waitpid;
/// one command runs at a time. In the process of the command it does not return. Call it in a process of one thread.
/// `hangs_up`: SIGHUP ends commands.
void serve_forks(int socket, const RunProgram& run, bool hangs_up = true);

/// The server as a process of its own. Not thread-safe.
class ForkServer {
 public:
  /// Call it before anything starts a thread. If another thread runs already, there is no server.
  explicit ForkServer(const RunProgram& run);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  bool is_there() const { return server_ > 0 && !is_gone_; }
  /// Starts a command and returns its process. Returns -1 if the system has too many processes, nullopt if the server
  /// has ended. Call wait() before the next command.
  std::optional<pid_t> start(const std::vector<std::string>& words, int out, int err);
  /// Waits for the end of the command and returns its status as of waitpid. A command whose server was killed was
  /// killed too, and is_there() is false from then on.
  int wait();

 private:
  std::optional<int> answer();  ///< nullopt: the server has ended

  pid_t server_ = -1;
  int socket_ = -1;
  bool is_gone_ = false;
};

}  // namespace trireme
