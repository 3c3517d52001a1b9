// Pipes to child processes, and reading them line by line.
#pragma once

#include <array>
#include <functional>
#include <string>

namespace trireme {

/// Returns the reading end and the writing end. A child that executes a program does not inherit them. `verb`: the
/// command that errors name.
std::array<int, 2> make_pipe(const char* verb);

/// Splits the data at the reading end of a pipe into lines. Owns the descriptor. Not thread-safe.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  int fd() const { return fd_; }
  /// Reads the available data and passes whole lines to `on_line`. Returns false at the end of the stream; the last
  /// line may be without a line break.
  bool read(const std::function<void(const std::string&)>& on_line);

 private:
  const int fd_;
  std::string rest_;
};

}  // namespace trireme
