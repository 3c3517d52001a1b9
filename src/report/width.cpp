#include "report/width.h"

#include <algorithm>

namespace trireme {
namespace {

/// True for the bytes of a UTF-8 character after its first.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

int columns_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string cut_to(std::string_view text, int columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns <= 0) return "";
  size_t end = 0;
  for (int seen = 0; end < text.size(); ++end)
    if (!continues(text[end]) && ++seen == columns) break;
  return std::string(text.substr(0, end)) + "…";
}

std::string pad_to(std::string text, int columns, bool right) {
  int missing = columns - columns_of(text);
  if (missing > 0) text.insert(right ? 0 : text.size(), static_cast<size_t>(missing), ' ');
  return text;
}

std::vector<std::string> wrap(std::string_view text, int columns) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > columns)
      lines.push_back(std::move(line)), line.clear();
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace trireme
