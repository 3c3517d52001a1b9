#include "base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class RealFile final : public WritableFile {
 public:
  explicit RealFile(fs::path path) : path_(std::move(path)), file_(path_, O_WRONLY | O_CREAT | O_EXCL) {
    if (!file_.is_open()) fail_write(path_, errno);
  }

  void append(std::string_view bytes) override { write_all(file_, path_, bytes); }

  void sync() override {
    if (::fsync(file_.get()) != 0) fail_write(path_, errno);
  }

 private:
  const fs::path path_;
  const FileDescriptor file_;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const fs::path& file) override { return std::make_unique<RealFile>(file); }

  void create_folder(const fs::path& folder) override {
    std::error_code ignored;
    if (::mkdir(folder.c_str(), 0777) != 0 && !(errno == EEXIST && fs::is_directory(folder, ignored)))
      fail_write(folder, errno);
  }

  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_write(to, errno);
  }

  /// Some file systems refuse to sync folders; that is ignored.
  void sync_folder(const fs::path& folder) override {
    const FileDescriptor opened(folder, O_RDONLY | O_DIRECTORY);
    if (!opened.is_open()) fail_write(folder, errno);
    if (::fsync(opened.get()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_write(folder, errno);
  }

  void remove(const fs::path& path) override {
    if (std::remove(path.c_str()) != 0) fail_write(path, errno);
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail_read(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trireme
