// The zip archive of a PyTorch file, read by libtorch's reader. The reader's failures become Trireme's errors.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace trireme {

/// Used by one thread.
class TorchArchive {
 public:
  /// Throws user errors: a path that cannot be read; a file that is not a zip archive (for example the format of
  /// PyTorch before 1.6) or a damaged one; an archive without data.pkl, or from a big-endian machine.
  explicit TorchArchive(std::filesystem::path path);
  ~TorchArchive();

  bool has(const std::string& record) const;
  /// Returns a record's bytes, in memory aligned for tensors. Throws user errors: no such record; a record that cannot
  /// be read; bytes that do not match the checksum in the archive. PyTorch has an option that leaves out checksums; it
  /// stores 0 for them, which is not checked.
  std::pair<c10::DataPtr, size_t> record(const std::string& name);
  std::string text(const std::string& name);

 private:
  void check_checksum(const std::string& name, const void* data, size_t bytes) const;

  std::filesystem::path path_;
  std::map<std::string, uint32_t> checksums_;  ///< by record
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

}  // namespace trireme
