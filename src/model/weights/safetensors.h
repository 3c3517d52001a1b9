// Reads and writes safetensors files: https://github.com/huggingface/safetensors. Eight bytes with the header's length,
// the header in JSON, the tensors' bytes. Compatible in both directions with Python's `safetensors`.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "model/weights/safetensors_header.h"
#include "model/weights/weights.h"

namespace trireme {

/// A file whose header has been read and checked. Tensors are read one by one, on request. Thread-safe.
class SafetensorsFile {
 public:
  /// Throws a user error with file and byte if the header is wrong (see parse_safetensors_header). Allocates memory for
  /// a stated length only after checking that the file is that long.
  explicit SafetensorsFile(std::filesystem::path path);

  const SafetensorsHeader& header() const { return header_; }

  /// Returns a tensor that owns its memory. Throws user errors: no such name, a BOOL byte other than 0 and 1. Run
  /// errors: not enough memory, a failing disk.
  at::Tensor read(const std::string& name) const;

 private:
  InputFile file_;
  uint64_t data_start_ = 0;
  SafetensorsHeader header_;
};

/// Reads all tensors of a file.
Weights read_safetensors(const std::filesystem::path& path);

/// Reads all tensors of a model that is divided into several files. `path` is the index that names each tensor's file
/// ("model.safetensors.index.json" with a weight_map; the files are in the same folder). Tensors that the index does
/// not name are not read. Throws user errors: a malformed index, a file name that refers to another folder, a tensor
/// that its file does not have; and the errors of the files.
Weights read_safetensors_index(const std::filesystem::path& path);

/// Writes the file completely or not at all (see AtomicFile). Tensors may be on any device and have any strides. They
/// are stored row-major, wide dtypes first, so that each is aligned to its elements without holes. The header is filled
/// with spaces to a multiple of 8 bytes. Throws user errors: a dtype without a name in the format, a tensor named
/// "__metadata__", a name or text that is not UTF-8; and the errors of AtomicFile.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Passes the same bytes to `write`, piece by piece. `path` is for messages.
void write_safetensors(const std::function<void(std::string_view bytes)>& write, const std::filesystem::path& path,
                       const TensorMap& tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace trireme
