#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "trireme/program.h"

namespace {

/// Called after the destructors of static objects that were made since main began. The destructors of those made
/// before it, most of them of libtorch and 280 other libraries, do not run: they take 0.08 s and free only what ends
/// with the process.
void end_without_libraries(int code, void*) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they report at the very end
  ::on_exit(end_without_libraries, nullptr);
#endif
  return trireme::run_program(argc, argv);
}
