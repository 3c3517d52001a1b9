// One HTTP request that appends to a partial file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace trireme {

/// FILE.part: open, locked against other processes, written at its end. Not thread-safe.
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
  bool complete = false;   ///< the server ended the body regularly
  bool permanent = false;  ///< asking this server again is pointless (404, unknown host)
  std::string problem;     ///< in words when not complete
};

/// GETs `url` into `part`, asking for the bytes after those it holds. The part is cleared when the server sends the
/// whole file instead, or another range than asked for. Stops at more than `expected` bytes. `received` is called with
/// the part's size as it grows. Errors of the disk are thrown, those of the network returned.
TransferResult transfer(const std::string& url, PartFile& part, int64_t expected, double timeout_seconds,
                        const std::function<void(int64_t)>& received);

}  // namespace trireme
