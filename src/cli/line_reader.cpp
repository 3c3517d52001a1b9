#include "cli/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/error.h"

namespace trireme {

std::array<int, 2> make_pipe(const char* verb) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail_run({verb, "cannot make a pipe", std::strerror(errno), "close other programs and try again"});
  return ends;
}

LineReader::~LineReader() { ::close(fd_); }

bool LineReader::read(const std::function<void(const std::string&)>& on_line) {
  std::array<char, 65536> chunk;
  const ssize_t n = ::read(fd_, chunk.data(), chunk.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) {
    if (!rest_.empty()) on_line(rest_);
    rest_.clear();
    return false;
  }
  rest_.append(chunk.data(), size_t(n));
  size_t begin = 0;
  for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
    on_line(rest_.substr(begin, end - begin));
  rest_.erase(0, begin);
  return true;
}

}  // namespace trireme
