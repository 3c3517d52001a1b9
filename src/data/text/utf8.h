// UTF-8 text: finds invalid bytes, reads code points, converts letters to lower case. Source: RFC 3629.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// U+FEFF, which some editors write before a text. It is not part of the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Returns the position of the first byte that does not belong to a valid sequence (a stray or missing continuation
/// byte, an overlong form, a surrogate, a code point above U+10FFFF); npos if all of `text` is valid.
size_t find_invalid_utf8(std::string_view text);

/// Throws the user error "file:line:column: byte 0x.. at position P of the file is not UTF-8" unless `text`, the whole
/// of `file`, is valid. Lines and columns (bytes) count from 1, positions from 0.
void check_utf8(std::string_view text, const std::filesystem::path& file, const std::string& next);

/// Returns the code point at `at`, and moves `at` to the next one. `text` must be valid.
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(std::string& text, char32_t code_point);

/// Converts ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic letters to lower case; others are unchanged. `text`
/// must be valid.
std::string to_lower(std::string_view text);

}  // namespace trireme
