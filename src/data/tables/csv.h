// Tables of comma-separated values. Source: Y. Shafranovich, "Common format and MIME type for CSV files", RFC 4180.
// Beyond the RFC: rows may also end with LF or CR alone; a quote inside an unquoted field is an ordinary character;
// lines without a character are not rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/on_error.h"

namespace trireme {

struct CsvOptions {
  char separator = ',';
  bool header = true;  ///< the first row names the columns
  /// Names of the columns if there is no header. Empty: "column 1", "column 2", ...
  std::vector<std::string> names = {};
  bool trim = false;                      ///< removes blanks around a field, outside quotes
  std::string comment = {};               ///< a line that begins with this text is not a row; empty: no such lines
  std::vector<std::string> missing = {};  ///< fields that mean "no value", in addition to the usual ones
  OnError on_error = OnError::fail;
};

/// The fields of a table as text. Immutable; thread-safe.
class CsvTable {
 public:
  int64_t rows() const { return rows_; }
  int64_t columns() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& file() const { return file_; }
  int64_t skipped() const { return skipped_; }  ///< rows left out because they could not be read

  std::string_view field(int64_t row, int64_t column) const;
  /// True if the field holds no value: it is empty, ?, NA, NaN, nan or one of CsvOptions::missing.
  bool is_missing(int64_t row, int64_t column) const;
  /// True if the field holds no value in a column of numbers: also a NaN in any case, and the words that
  /// pandas.read_csv takes for one, such as N/A, null and None.
  bool is_missing_number(int64_t row, int64_t column) const;
  /// Returns "file:line:column" of the field, for messages: the line in the file and the byte in the line, from 1.
  std::string position(int64_t row, int64_t column) const;

 private:
  friend class CsvReader;
  struct Field {
    size_t begin = 0;  ///< in text_
    size_t length = 0;
  };
  const Field& at(int64_t row, int64_t column) const;

  std::string file_;
  std::string text_;                 ///< the file; doubled quotes are removed in place, so that positions stay valid
  std::vector<size_t> line_starts_;  ///< in text_
  std::vector<Field> fields_;        ///< row by row
  std::vector<std::string> names_;
  std::vector<std::string> missing_;
  int64_t rows_ = 0;
  int64_t skipped_ = 0;
};

/// Reads a file, gzipped or plain. User errors, all with file:line:column: a row with more or fewer fields than the
/// header (or the first row); text after a closing quote; bytes that are not UTF-8 (with the position in the file).
/// With OnError::skip, these rows are skipped and counted. Always user errors: a quote that is never closed; two
/// columns with the same name; no rows; a missing file.
CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options = {});

/// As read_csv, for `text`. `file`: its name in messages.
CsvTable parse_csv(std::string text, const std::string& file, const CsvOptions& options = {});

}  // namespace trireme
