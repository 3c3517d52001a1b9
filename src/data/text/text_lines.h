// A text file line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

/// A line of a file, without its end (LF or CR LF).
struct TextLine {
  std::string text;
  int64_t number = 0;     ///< from 1
  int64_t bad_byte = -1;  ///< in the line, from 0: the first that is not UTF-8; -1: all are
  int64_t position = 0;   ///< of the line in the file (unpacked), bytes from 0
};

/// All lines of a file, gzipped or plain, without a byte order mark before the first. Only LF ends a line: Unicode's
/// other line separators are text. User error: the file is missing, cannot be read or holds no line; `next` is what the
/// message advises.
std::vector<TextLine> read_lines(const std::filesystem::path& file, const std::string& next);

/// User error that names file, line and byte of a line that is not UTF-8.
void check_utf8(const TextLine& line, const std::filesystem::path& file, const std::string& next);

}  // namespace trireme
