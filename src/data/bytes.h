// Reads files as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace trireme {

/// Returns the first bytes of a file, at most `most`. User error when it is missing or cannot be read; `next` is the
/// advice in the message.
std::vector<uint8_t> read_file(const std::filesystem::path& file, const std::string& next,
                               size_t most = std::numeric_limits<size_t>::max());

/// Decompresses gzip data (one or more members). User error naming `file` and the position in the compressed bytes when
/// the stream is corrupt or cut short.
std::vector<uint8_t> gunzip(const std::vector<uint8_t>& compressed, const std::filesystem::path& file,
                            const std::string& next);

bool is_gzip(const std::vector<uint8_t>& bytes);

}  // namespace trireme
