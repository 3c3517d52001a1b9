// Makes one HTTP request that appends to a partial file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace trireme {

/// FILE.part: an open file, locked against other processes, written at its end. Not thread-safe.
class PartFile {
 public:
  /// Run errors: the folder cannot be written, another process holds the file.
  explicit PartFile(std::filesystem::path path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }
  void append(const char* bytes, size_t count);  ///< run error when the disk does not take them
  void clear();
  void rename_to(const std::filesystem::path& target);  ///< flushes first; the PartFile must not be used after

 private:
  [[noreturn]] void fail_disk(const char* operation) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

struct TransferResult {
  bool complete = false;   ///< true: the server ended the body regularly
  bool permanent = false;  ///< true: another request to this server is pointless (404, unknown host)
  std::string problem;     ///< the problem in words if not complete
};

/// GETs `url` and appends to `part`; requests the bytes after those that it holds. The part is cleared if the server
/// sends the whole file, or a range other than the requested one. Stops at more than `expected` bytes. `received` is
/// called with the part's size as it grows. Throws errors of the disk; returns errors of the network.
TransferResult transfer(const std::string& url, PartFile& part, int64_t expected, double timeout_seconds,
                        const std::function<void(int64_t)>& received);

}  // namespace trireme
