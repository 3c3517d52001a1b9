// Shared by all fuzz targets: the input as a file, and the check of errors for bad input.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "trireme/error.h"

namespace trireme::fuzz {

/// A file in memory that is rewritten for each input; readers open it by its path.
class InputFile {
 public:
  InputFile()
      : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    if (descriptor_ < 0) std::abort();
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& write(const uint8_t* data, size_t size) {
    const bool written = ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, data, size, 0) == ssize_t(size);
    if (!written) std::abort();
    return path_;
  }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// Runs `read`. Bad input must give a one-line Error with this blame. Any other exception ends the fuzzer, which keeps
/// the input.
template <class Function>
void expect_success_or_error(Blame blame, Function&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.blame() == blame && std::string(error.what()).find('\n') == std::string::npos) return;
    std::fprintf(stderr, "not the error in one line that it should be: %s\n", error.what());
    std::abort();
  }
}

/// For readers of files: bad input is the user's error.
template <class Function>
void expect_success_or_user_error(Function&& read) {
  expect_success_or_error(Blame::user, std::forward<Function>(read));
}

}  // namespace trireme::fuzz
