// What writing a set of files durably takes, one operation at a time, behind an interface: tests let any of them fail,
// or be the last one before the machine stops. Reading needs none (base/file.h).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A file that is being written. Used by one thread. Bytes survive a crash of the machine once sync has returned.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::string_view bytes) = 0;
  virtual void sync() = 0;
};

/// Errors of all operations: the user's where the path is at fault, the run's where the disk is. What an operation does
/// to a folder's entries survives a crash once sync_folder of that folder has returned. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// A new, empty file; an error where there is one of that name.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& file) = 0;
  /// Its parent must exist; it may exist itself.
  virtual void create_folder(const std::filesystem::path& folder) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) = 0;
  /// A file or an empty folder.
  virtual void remove(const std::filesystem::path& path) = 0;
};

/// The machine's.
FileSystem& real_file_system();

/// The names in a folder, sorted. A user error where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace trireme
