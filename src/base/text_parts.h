// Texts cut into parts, and parts read as numbers.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace trireme {

/// Returns the parts between the separators: one more than there are separators. They refer to the text.
inline std::vector<std::string_view> cut(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (bool more = true; more;) {
    parts.push_back(text.substr(0, text.find(separator)));
    more = parts.back().size() < text.size();
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

/// Reads the whole text as one number; nullopt if it is not a number, or is too large for the type.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace trireme
