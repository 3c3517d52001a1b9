// Files as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace trireme {

/// The first bytes of a file, at most `most`. User error when it is missing or cannot be read; `next` is what the
/// message advises.
std::vector<uint8_t> read_file(const std::filesystem::path& file, const std::string& next,
                               size_t most = std::numeric_limits<size_t>::max());

/// Decompresses gzip data (one or more members). User error naming `file` and the compressed byte position where the
/// stream is corrupt or cut short.
std::vector<uint8_t> gunzip(const std::vector<uint8_t>& compressed, const std::filesystem::path& file,
                            const std::string& next);

bool is_gzip(const std::vector<uint8_t>& bytes);

}  // namespace trireme
