// `trireme` for tests that run a thousand commands: libtorch is loaded once, and each command runs in a fork. Without
// arguments it runs the commands that arrive on standard input (cli/fork_server.h). With arguments it behaves like
// `trireme`; launchers start it this way.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/fork_server.h"
#include "trireme/program.h"

namespace {

/// As in src/cli/main.cpp: the static destructors of libraries do not run.
void end(int code, void*) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ::on_exit(end, nullptr);
#endif
  if (argc > 1) return trireme::run_program(argc, argv);
  const int commands = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (std::freopen("/dev/null", "r", stdin) == nullptr) return 1;
  trireme::serve_forks(commands, trireme::run_program);
}
