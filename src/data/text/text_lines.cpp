#include "data/text/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "data/bytes.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {

std::vector<TextLine> read_lines(const std::filesystem::path& file, const std::string& next) {
  std::vector<uint8_t> bytes = read_file(file, next);
  if (is_gzip(bytes)) bytes = gunzip(bytes, file, "the file is damaged or cut short: get it again");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<TextLine> lines;
  for (size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t bad = find_invalid_utf8(line);
    lines.push_back({.text = std::string(line),
                     .number = static_cast<int64_t>(lines.size()) + 1,
                     .bad_byte = bad == line.npos ? -1 : static_cast<int64_t>(bad),
                     .position = static_cast<int64_t>(begin)});
    begin = end + 1;
  }
  if (lines.empty()) fail_user({.where = file.string(), .what = "no lines", .why = "the file is empty", .next = next});
  return lines;
}

void check_utf8(const TextLine& line, const std::filesystem::path& file, const std::string& next) {
  if (line.bad_byte < 0) return;
  fail_user({.where = fmt::format("{}:{}:{}", file.string(), line.number, line.bad_byte + 1),
             .what = fmt::format("byte 0x{:02x} at position {} of the file",
                                 static_cast<uint8_t>(line.text[static_cast<size_t>(line.bad_byte)]),
                                 line.position + line.bad_byte),
             .why = "it is not UTF-8",
             .next = next});
}

}  // namespace trireme
