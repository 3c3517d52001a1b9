// The header of a safetensors file: which tensors lie where. Format: https://github.com/huggingface/safetensors,
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

/// Bytes of the header's length, a little-endian number that the file starts with.
inline constexpr uint64_t kSafetensorsPrefix = 8;
/// The format's own limit.
inline constexpr uint64_t kSafetensorsLongestHeader = 100'000'000;

/// One tensor: row-major, little-endian, at bytes [begin, end) behind the header.
struct StoredTensor {
  at::ScalarType dtype = at::kFloat;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads the header's JSON, all of `text`, and holds it to the format: it starts with '{' and may end in spaces; every
/// tensor has dtype, shape and data_offsets and nothing else, and as many bytes as its shape asks for; the tensors
/// cover the `data_bytes` bytes behind the header without overlap or hole; no name twice. Allocates no more than a
/// small multiple of `text`. User errors name `file` and the byte of it: for JSON the end of the offending token, for
/// offsets the place in the data.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::filesystem::path& file);

/// "F32", "I64", ...: the format's name; nothing for dtypes that it or Trireme has none for.
std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype);

/// Bytes of a dense tensor; nothing where the count of bytes does not fit int64 (a 0 among the lengths does not help)
/// or a length is negative.
std::optional<uint64_t> tensor_bytes(const Shape& shape, at::ScalarType dtype);

}  // namespace trireme
