// Pipes to child processes: made, and read line by line.
#pragma once

#include <array>
#include <functional>
#include <string>

namespace trireme {

/// Reading end, writing end; a child that executes a program does not inherit them. `verb`: names the command in an
/// error.
std::array<int, 2> make_pipe(const char* verb);

/// The reading end of a pipe, cut into lines. Owns the descriptor. Not thread-safe.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  int fd() const { return fd_; }
  /// Reads what is there and hands on whole lines. False at the end of the stream, where a last line need not have an
  /// end.
  bool read(const std::function<void(const std::string&)>& on_line);

 private:
  const int fd_;
  std::string rest_;
};

}  // namespace trireme
