#include "report/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "trireme/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail_disk(const std::filesystem::path& path, const char* what) {
  if (errno == ENOSPC || errno == EDQUOT) fail_write(path, errno);
  fail_run({path.string(), what, std::strerror(errno), "check the disk's free space and the folder's permissions"});
}

void write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_disk(path, "cannot be written");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

/// Closes the descriptor on every return and exception.
struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

}  // namespace

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_disk(path_, "cannot be created");
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view bytes) {
  struct stat before {};
  const bool known = ::fstat(fd_, &before) == 0;
  try {
    write_all(fd_, bytes, path_);
  } catch (const Error&) {
    if (known && ::ftruncate(fd_, before.st_size) != 0) throw;  // the write error is reported already
    throw;
  }
}

bool create_file(const std::filesystem::path& path, std::string_view content) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) return false;
  if (fd < 0) fail_disk(path, "cannot be created");
  Descriptor file{fd};
  write_all(file.fd, content, path);
  return true;
}

}  // namespace trireme
