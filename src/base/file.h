// Files below the level of streams: opened with errors that name path and reason, read at any offset, replaced
// atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace trireme {

/// An open file; closed when it goes out of scope.
class FileDescriptor {
 public:
  /// `flags` as open(2)'s. May fail: see is_open, the reason is in errno.
  FileDescriptor(const std::filesystem::path& path, int flags);
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// All of it, where the last write ended. Errors: as AtomicFile's.
void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view bytes);

/// A regular file, read at any offset. Threads may share it.
class InputFile {
 public:
  /// A user error where the path cannot be opened or is no regular file.
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  ///< bytes, as it was when opened

  /// All `bytes` from `offset` on, which must lie within size(). A run error where the disk fails or the file has
  /// shrunk since.
  void read(uint64_t offset, void* to, uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

/// Writes beside the target, then syncs to disk and renames: a reader, or a machine that crashed, finds the old file or
/// the new one, never half of it. The folder must exist. Errors blame the user where the path is at fault, the run
/// where the disk is. Used by one thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  /// Without commit(): the target stays as it was and nothing is left beside it.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  ///< goes on where the last one ended
  void commit();                       ///< once, after the last write

 private:
  std::filesystem::path path_, temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

/// The user error of a file that cannot be read, with errno's reason.
[[noreturn]] void fail_read(const std::filesystem::path& path, int error);

/// The error of a path that cannot be written to: the user's where the path is at fault, the run's where the disk is.
[[noreturn]] void fail_write(const std::filesystem::path& path, int error);

}  // namespace trireme
