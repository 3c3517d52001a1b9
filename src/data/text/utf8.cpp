#include "data/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLastCodePoint = 0x10FFFF;

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

/// Returns the number of bytes of the sequence that `first` begins; 0 if no sequence begins with it.
size_t sequence_length(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;  // C0 and C1 could only begin overlong forms
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// Returns the code point of the `length` bytes at `at`.
char32_t decode(std::string_view text, size_t at, size_t length) {
  if (length == 1) return byte_at(text, at);
  char32_t c = byte_at(text, at) & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) c = c << 6 | (byte_at(text, at + i) & 0x3Fu);
  return c;
}

bool is_valid(char32_t c, size_t length) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by length: below it the form is overlong
  return c >= kLeast[length] && c <= kLastCodePoint && (c < kFirstSurrogate || c > kLastSurrogate);
}

char32_t lower(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (within(U'A', U'Z') || (within(0xC0, 0xDE) && c != 0xD7)) return c + 32;
  if (c < 0x100) return c;
  // Latin Extended-A: capitals are even, but odd in two ranges; three letters are exceptions
  if (c == 0x130) return U'i';
  if (c == 0x178) return 0xFF;
  if (within(0x139, 0x148) || within(0x179, 0x17E)) return c % 2 == 1 ? c + 1 : c;
  if (within(0x100, 0x177) && c != 0x138 && c != 0x149) return c % 2 == 0 ? c + 1 : c;
  // Greek, with and without accents
  if (c == 0x386) return 0x3AC;
  if (within(0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (within(0x38E, 0x38F)) return c + 63;
  if (within(0x391, 0x3AB) && c != 0x3A2) return c + 32;
  // Cyrillic
  if (within(0x400, 0x40F)) return c + 80;
  return within(0x410, 0x42F) ? c + 32 : c;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(byte_at(text, at));
    if (length == 0 || at + length > text.size()) return at;
    for (size_t i = 1; i < length; ++i)
      if ((byte_at(text, at + i) & 0xC0) != 0x80) return at;
    if (!is_valid(decode(text, at, length), length)) return at;
    at += length;
  }
  return std::string_view::npos;
}

void check_utf8(std::string_view text, const std::filesystem::path& file, const std::string& next) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == text.npos) return;
  const std::string_view before = text.substr(0, bad);
  const size_t line_break = before.rfind('\n');
  const size_t column = bad - (line_break == before.npos ? 0 : line_break + 1) + 1;
  fail_user(
      {.where = fmt::format("{}:{}:{}", file.string(), std::count(before.begin(), before.end(), '\n') + 1, column),
       .what = fmt::format("byte 0x{:02x} at position {} of the file", byte_at(text, bad), bad),
       .why = "it is not UTF-8",
       .next = next});
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const size_t length = sequence_length(byte_at(text, at));
  check_internal(length > 0 && at + length <= text.size(), "text is valid UTF-8 where its code points are read");
  const char32_t c = decode(text, at, length);
  at += length;
  return c;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int following = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr char32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kLead[following] | c >> (6 * following));
  for (int i = following - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

std::string to_lower(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_utf8(result, lower(next_code_point(text, at)));
  return result;
}

}  // namespace trireme
