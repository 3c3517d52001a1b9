#include "report/width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "base/text_parts.h"

namespace trireme {
namespace {

/// True for the bytes of a UTF-8 character after its first.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

int columns_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

int columns_of_output(int descriptor, int otherwise) {
  winsize size{};
  if (::isatty(descriptor) != 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* set = std::getenv("COLUMNS");
  if (!set) return otherwise;
  const std::optional<int> columns = number_in<int>(set);
  return columns && *columns > 0 ? *columns : otherwise;
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

std::string wrap_lines(std::string_view text, int columns, int indent) {
  if (columns <= 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    // All lines are as short as the indented ones, so that a line's words need to be divided only once.
    const size_t own = std::min(line.find_first_not_of(' '), line.size());  // its own indentation stays
    const std::string before(own, ' '), behind(own + size_t(indent), ' ');
    if (columns_of(line) <= columns) out += line;
    else
      out.append(before).append(join(wrap(line.substr(own), std::max(1, columns - int(behind.size()))), "\n" + behind));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace trireme
