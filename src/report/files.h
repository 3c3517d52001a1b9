// Files that stay readable whenever the process dies.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

/// A file that only grows, one write(2) per append, so that a reader (or a run that was killed) finds whole records.
/// Not thread-safe. Throws a run error that names the file when the disk refuses: nothing of that record is there then.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int fd_;
};

/// Creates `path` with `content`. False, and nothing done, where it exists already.
bool create_file(const std::filesystem::path& path, std::string_view content);

}  // namespace trireme
