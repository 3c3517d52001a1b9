// Reads a text file line by line.
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
  int64_t bad_byte = -1;  ///< position in the line, from 0, of the first byte that is not UTF-8; -1: all are
  int64_t position = 0;   ///< position of the line in the (unpacked) file, bytes from 0
};

/// Returns all lines of a file, gzipped or plain, without a byte order mark before the first. Only LF ends a line:
/// Unicode's other line separators are text. User error: the file is missing, cannot be read or holds no line; `next`
/// is the advice in the message.
std::vector<TextLine> read_lines(const std::filesystem::path& file, const std::string& next);

/// Throws a user error with file, line and byte if the line is not UTF-8.
void check_utf8(const TextLine& line, const std::filesystem::path& file, const std::string& next);

}  // namespace trireme
