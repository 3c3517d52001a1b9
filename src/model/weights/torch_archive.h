// The zip archive that PyTorch's files are, read by libtorch's reader; its failures as errors of ours.
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
  /// User errors: a path that cannot be read, a file that is no zip archive (the format of PyTorch before 1.6 among
  /// them) or a damaged one, one without data.pkl, one of a big-endian machine.
  explicit TorchArchive(std::filesystem::path path);
  ~TorchArchive();

  bool has(const std::string& record) const;
  /// A record's bytes, in memory aligned for tensors. User errors: no such record, one that cannot be read, one whose
  /// bytes do not give the checksum that the archive states. PyTorch can be told to leave checksums out; 0 stands for
  /// none.
  std::pair<c10::DataPtr, size_t> record(const std::string& name);
  std::string text(const std::string& name);

 private:
  void check_checksum(const std::string& name, const void* data, size_t bytes) const;

  std::filesystem::path path_;
  std::map<std::string, uint32_t> checksums_;  ///< by record
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

}  // namespace trireme
