// What all fuzz targets share: the input as a file, and what a reader may do with a bad one.
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

/// A file in memory, written anew for each input; readers open it by its path.
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

/// Runs `read`. An error in one line, of that blame, is what a bad input should give; anything else that is thrown ends
/// the fuzzer, which keeps the input.
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

/// Of a reader of files.
template <class Function>
void expect_success_or_user_error(Function&& read) {
  expect_success_or_error(Blame::user, std::forward<Function>(read));
}

}  // namespace trireme::fuzz
