#include "model/weights/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace trireme {
namespace {

/// Returns the bytes of the UTF-8 character at the start of `text`, or 0 if there is none. Overlong forms count as
/// characters: this is for display.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t length = first < 0x80 ? 1 : first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : 2;
  if ((first >= 0x80 && first < 0xc2) || first >= 0xf5 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (shown.size() + std::max<size_t>(length, 1) > limit) return shown + "...";
    if (length == 0 || first < 0x20 || first == 0x7f) shown += '?';
    else shown += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return shown;
}

std::string list_names(const std::vector<std::string>& names, size_t limit) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == limit) return fmt::format("{} and {} more", join(shown), names.size() - limit);
    shown.push_back(fmt::format("\"{}\"", printable(name)));
  }
  return join(shown);
}

}  // namespace trireme
