// Files that are readable at any time, even after the process was killed.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

/// A file that is only appended to. Each append is one write(2), so that a reader always finds whole records, even
/// after a kill. Not thread-safe. Throws a run error that names the file if the write fails; the file then contains
/// nothing of that record.
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

/// Creates `path` with `content`. Returns false, and does nothing, if it already exists.
bool create_file(const std::filesystem::path& path, std::string_view content);

}  // namespace trireme
