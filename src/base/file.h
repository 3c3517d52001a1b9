// Files by descriptor: opened with errors that name path and reason, read at any offset, replaced atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace trireme {

/// An open file; closed when it goes out of scope.
class FileDescriptor {
 public:
  /// `flags` are those of open(2). On failure is_open() is false and errno holds the reason.
  FileDescriptor(const std::filesystem::path& path, int flags);
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Writes all bytes at the file's current position. Errors: as AtomicFile's.
void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view bytes);

/// A regular file that is read at any offset. Thread-safe.
class InputFile {
 public:
  /// Throws a user error if the path cannot be opened or is not a regular file.
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  ///< bytes, at the time of opening

  /// Reads `bytes` bytes from `offset` into `to`. The range must lie within size(). Throws a run error if the disk
  /// fails or the file has become shorter.
  void read(uint64_t offset, void* to, uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

/// Writes a temporary file beside the target. commit() syncs it to disk and renames it. So a reader, or a machine after
/// a crash, finds the old file or the new one, never a partial one. The folder must exist. Errors blame the user if the
/// path is at fault, and the run if the disk is. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  /// Without commit(), the target is unchanged and the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  ///< appends after the previous write
  void commit();                       ///< once, after the last write

 private:
  std::filesystem::path path_, temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

/// Throws a user error for a file that cannot be read, with errno's reason.
[[noreturn]] void fail_read(const std::filesystem::path& path, int error);

/// Throws the error for a path that cannot be written: a user error if the path is at fault, a run error if the disk
/// is.
[[noreturn]] void fail_write(const std::filesystem::path& path, int error);

}  // namespace trireme
