// safetensors files, read and written: https://github.com/huggingface/safetensors. Eight bytes of header length, the
// header in JSON, the tensors' bytes. Python's `safetensors` reads what is written here and writes what is read here.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "model/weights/safetensors_header.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// A file whose header has been read and held to the format; its tensors are read one by one, each when asked for.
/// Threads may share it.
class SafetensorsFile {
 public:
  /// A user error with file and byte where anything about it is wrong (see parse_safetensors_header). Nothing is
  /// allocated on the word of a length before the file has been seen to be that long.
  explicit SafetensorsFile(std::filesystem::path path);

  const SafetensorsHeader& header() const { return header_; }

  /// A tensor of its own memory. User errors: no such name, a BOOL byte other than 0 and 1. Run errors: no memory, a
  /// bad disk.
  at::Tensor read(const std::string& name) const;

 private:
  InputFile file_;
  uint64_t data_start_ = 0;
  SafetensorsHeader header_;
};

/// All tensors of a file.
Weights read_safetensors(const std::filesystem::path& path);

/// All tensors of a model cut into several files: `path` is the index that names each tensor's file
/// ("model.safetensors.index.json" with a weight_map; the files lie beside it). What the index does not name is not
/// read. User errors: a malformed index, a file name that leads to another folder, a tensor that its file lacks, and
/// those of the files.
Weights read_safetensors_index(const std::filesystem::path& path);

/// Writes the file in one go or not at all (see AtomicFile). Tensors may be on any device and of any strides; they are
/// stored row-major, those of wide dtypes first, so that each is aligned to its elements and no holes are needed; the
/// header is filled up with spaces to a multiple of 8 bytes. User errors: a dtype without a name in the format, a
/// tensor called "__metadata__", a name or text that is not UTF-8, and those of AtomicFile.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The same bytes, piece by piece; `path` is for messages.
void write_safetensors(const std::function<void(std::string_view bytes)>& write, const std::filesystem::path& path,
                       const TensorMap& tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace trireme
