#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/units.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestRead = uint64_t{1} << 30;  // Linux reads at most 2 GiB at once

std::string reason(int error) { return std::generic_category().message(error); }

/// "No space left on device (12.0 KiB of 200 KiB are free)", of the disk of `path`.
std::string why_full(const fs::path& path) {
  std::error_code error;
  for (fs::path folder = fs::absolute(path, error).parent_path(); !error && !folder.empty();
       folder = folder.parent_path()) {
    std::error_code absent;
    const fs::space_info space = fs::space(folder, absent);
    if (!absent)
      return fmt::format("{} ({} of {} are free)", reason(ENOSPC), format_bytes(int64_t(space.available)),
                         format_bytes(int64_t(space.capacity)));
    if (folder == folder.root_path()) break;
  }
  return reason(ENOSPC);
}

fs::path temporary_name(const fs::path& path) {
  static std::atomic<int> counter{0};
  return fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), counter.fetch_add(1));
}

/// Makes a rename durable: it is on disk only after its folder is synced. Some file systems refuse to sync folders;
/// that is ignored.
void sync_folder(const fs::path& folder) {
  FileDescriptor opened(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY);
  if (opened.is_open()) ::fsync(opened.get());
}

}  // namespace

void fail_read(const fs::path& path, int error) {
  fail_user({.where = path.string(),
             .what = "cannot be read",
             .why = reason(error),
             .next = error == ENOENT ? "check the path" : "check the file and its permissions"});
}

void fail_write(const fs::path& path, int error) {
  Diagnosis diagnosis{.where = path.string(), .what = "cannot be written", .why = reason(error), .next = ""};
  switch (error) {
    case ENOENT:
    case ENOTDIR: diagnosis.next = "create its folder or choose another path"; fail_user(std::move(diagnosis));
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENAMETOOLONG: diagnosis.next = "choose a path that you may write to"; fail_user(std::move(diagnosis));
    case ENOSPC: diagnosis.why = why_full(path); [[fallthrough]];
    case EDQUOT: diagnosis.next = "free some space or choose a path on another disk"; fail_run(std::move(diagnosis));
    default: diagnosis.next = "check the disk"; fail_run(std::move(diagnosis));
  }
}

FileDescriptor::FileDescriptor(const fs::path& path, int flags)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// O_NONBLOCK: opening a pipe that no process writes to would otherwise wait for ever
InputFile::InputFile(fs::path path) : path_(std::move(path)), file_(path_, O_RDONLY | O_NONBLOCK) {
  if (!file_.is_open()) fail_read(path_, errno);
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_read(path_, errno);
  if (S_ISDIR(status.st_mode)) fail_read(path_, EISDIR);
  if (!S_ISREG(status.st_mode))
    fail_user({.where = path_.string(),
               .what = "cannot be read",
               .why = "it is not a regular file",
               .next = "check the path"});
  size_ = uint64_t(status.st_size);
}

void InputFile::read(uint64_t offset, void* to, uint64_t bytes) const {
  check_internal(offset <= size_ && bytes <= size_ - offset, "reads stay within the file");
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(file_.get(), at, std::min(bytes, kLongestRead), off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      fail_run({.where = path_.string(),
                .what = fmt::format("cannot be read at byte {}", offset),
                .why = reason(errno),
                .next = "check the disk"});
    if (count == 0)
      fail_run({.where = path_.string(),
                .what = fmt::format("ends at byte {}", offset),
                .why = fmt::format("it had {} bytes when it was opened", size_),
                .next = "make sure that no program writes to it while it is read"});
    at += count;
    offset += uint64_t(count);
    bytes -= uint64_t(count);
  }
}

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)), file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC) {
  if (!file_.is_open()) fail_write(path_, errno);
}

void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path, errno);
    bytes.remove_prefix(size_t(written));
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write_all(file_, path_, bytes); }

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail_write(path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, errno);
  committed_ = true;
  sync_folder(path_.parent_path());
}

}  // namespace trireme
