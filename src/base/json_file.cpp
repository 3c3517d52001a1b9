#include "base/json_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// An open file descriptor; closed when it goes out of scope.
class File {
 public:
  File(const fs::path& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// A file under its temporary name; removed unless it was renamed.
struct Temporary {
  fs::path path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_read(const fs::path& path, int error) {
  fail_user({.where = path.string(),
             .what = "cannot be read",
             .why = reason(error),
             .next = error == ENOENT ? "check the path" : "check the file and its permissions"});
}

[[noreturn]] void fail_write(const fs::path& path, int error) {
  Diagnosis diagnosis{.where = path.string(), .what = "cannot be written", .why = reason(error), .next = ""};
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      diagnosis.next = "create its folder or choose another path";
      fail_user(std::move(diagnosis));
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENAMETOOLONG:
      diagnosis.next = "choose a path that you may write to";
      fail_user(std::move(diagnosis));
    case ENOSPC:
    case EDQUOT:
      diagnosis.next = "free some space or choose a path on another disk";
      fail_run(std::move(diagnosis));
    default:
      diagnosis.next = "check the disk";
      fail_run(std::move(diagnosis));
  }
}

/// 0 or the errno of what failed.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(size_t(written));
  }
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

/// A rename is on disk only when its folder is. Some file systems refuse to sync folders: then there is nothing to do.
void sync_folder(const fs::path& folder) {
  File opened(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY);
  if (opened.is_open()) ::fsync(opened.descriptor());
}

}  // namespace

std::string read_file(const fs::path& path) {
  File file(path, O_RDONLY);
  if (!file.is_open()) fail_read(path, errno);
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(file.descriptor(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(path, errno);
    if (count == 0) return bytes;
    bytes.append(buffer, size_t(count));
  }
}

nlohmann::json read_json_file(const fs::path& path) {
  const std::string text = read_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the part behind the place
    std::string why = error.what();
    if (size_t place = why.find(": "); place != std::string::npos) why.erase(0, place + 2);
    fail_user({.where = path.string(),
               .what = fmt::format("not valid JSON at byte {} of {}", error.byte, text.size()),
               .why = why,
               .next = "the file is damaged or was edited wrongly: repair it or write it anew"});
  }
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  static std::atomic<int> counter{0};
  Temporary temporary{fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), counter.fetch_add(1))};
  {
    File file(temporary.path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.is_open()) fail_write(path, errno);
    if (int error = write_all(file.descriptor(), bytes); error != 0) fail_write(path, error);
  }
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) fail_write(path, errno);
  temporary.kept = true;
  sync_folder(path.parent_path());
}

void write_json_file(const fs::path& path, const nlohmann::json& value) {
  constexpr int kIndent = 2;
  write_file_atomically(path, value.dump(kIndent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace trireme
