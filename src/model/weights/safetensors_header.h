// The header of a safetensors file: the position of each tensor. Format: https://github.com/huggingface/safetensors,
// "Format".
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/placement.h"

namespace trireme {

/// Size in bytes of the header's length, a little-endian number at the start of the file.
inline constexpr uint64_t kSafetensorsPrefix = 8;
/// The format's own limit, in bytes.
inline constexpr uint64_t kSafetensorsLongestHeader = 100'000'000;

/// One tensor: row-major, little-endian, at bytes [begin, end) after the header.
struct StoredTensor {
  at::ScalarType dtype = at::kFloat;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses the header's JSON, which is all of `text`, and checks it against the format: it starts with '{' and may end
/// in spaces; every tensor has dtype, shape and data_offsets and nothing else, and as many bytes as its shape requires;
/// the tensors cover the `data_bytes` bytes after the header without overlap or hole; no name occurs twice. Memory use
/// is at most a small multiple of `text`. Throws user errors that name `file` and the byte in it: for JSON the end of
/// the wrong token, for offsets the position in the data.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::filesystem::path& file);

/// Returns the format's name: "F32", "I64", ...; nullopt for dtypes that the format or Trireme does not support.
std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype);

/// Returns the bytes of a dense tensor; nullopt if the number does not fit int64 (even if one of the lengths is 0) or a
/// length is negative.
std::optional<uint64_t> tensor_bytes(const Shape& shape, at::ScalarType dtype);

}  // namespace trireme
