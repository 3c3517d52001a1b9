// The operations that write a set of files durably, one at a time, behind an interface. A test can let any operation
// fail, or make it the last one before a crash of the machine. For reading, see base/file.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A file that is being written. Not thread-safe. The bytes survive a crash of the machine after sync() has returned.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::string_view bytes) = 0;
  virtual void sync() = 0;
};

/// Errors of all operations: a user error if the path is at fault, a run error if the disk is. A change of a folder's
/// entries survives a crash after sync_folder() of that folder has returned. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Creates a new, empty file. It is an error if a file of that name exists.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& file) = 0;
  /// Creates a folder. Its parent must exist. The folder itself may exist already.
  virtual void create_folder(const std::filesystem::path& folder) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) = 0;
  /// Removes a file or an empty folder.
  virtual void remove(const std::filesystem::path& path) = 0;
};

/// The file system of this machine.
FileSystem& real_file_system();

/// Returns the names in a folder, sorted. Throws a user error if the folder cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace trireme
