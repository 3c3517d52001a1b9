#include "data/tables/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "data/bytes.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 5> kMissingWords{"", "?", "NA", "NaN", "nan"};
/// Further ones of pandas.read_csv. In a column of words they may be words: the colour "None".
constexpr std::array<std::string_view, 13> kMissingNumbers{"#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN",
                                                           "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NULL",
                                                           "None",   "n/a",      "null"};
const char* const kCorrectTheRow = "correct the row, or leave such rows out: data.on_error = \"skip\"";

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_line_end(char c) { return c == '\n' || c == '\r'; }

/// True for "nan" in any case, with or without a sign.
bool is_nan(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const auto same = [](char a, char b) { return a == b || a == b - 'a' + 'A'; };
  return std::ranges::equal(text, std::string_view("nan"), same);
}

}  // namespace

/// Parses a text row by row.
class CsvReader {
 public:
  CsvReader(std::string text, const std::string& file, const CsvOptions& options) : options_(options) {
    table_.file_ = file;
    table_.text_ = std::move(text);
    table_.missing_ = options.missing;
  }

  CsvTable read() {
    find_lines();
    find_invalid();
    at_ = text().starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    bool named = !options_.header;
    if (named && !options_.names.empty()) table_.names_ = options_.names;
    while (at_ < text().size()) {
      if (skip_line_without_row()) continue;
      if (!named) named = read_header();
      else read_row();
    }
    if (table_.rows_ == 0)
      fail_user({.where = table_.file_,
                 .what = "no rows",
                 .why = table_.skipped_ > 0
                            ? fmt::format("all {} were left out: they could not be read", table_.skipped_)
                            : "",
                 .next = "check that it is a CSV file with this separator"});
    return std::move(table_);
  }

 private:
  struct Problem {
    size_t at = 0;
    std::string what, why;
  };

  std::string& text() { return table_.text_; }

  void find_lines() {
    table_.line_starts_ = {0};
    for (size_t i = 0; i < text().size(); ++i)
      if (text()[i] == '\n' || (text()[i] == '\r' && (i + 1 == text().size() || text()[i + 1] != '\n')))
        table_.line_starts_.push_back(i + 1);
  }

  /// Must be called before quotes are removed, because that moves bytes.
  void find_invalid() {
    for (size_t from = 0; from < text().size(); from = invalid_.back() + 1) {
      const size_t bad = find_invalid_utf8(std::string_view(text()).substr(from));
      if (bad == std::string_view::npos) return;
      invalid_.push_back(from + bad);
    }
  }

  std::string place(size_t at) const {
    const auto line =
        std::upper_bound(table_.line_starts_.begin(), table_.line_starts_.end(), at) - table_.line_starts_.begin();
    return fmt::format("{}:{}:{}", table_.file_, line, at - table_.line_starts_[static_cast<size_t>(line) - 1] + 1);
  }

  /// Skips a blank line or a comment line, or blanks at the end of the file. Returns false if there is a row.
  bool skip_line_without_row() {
    const bool comment =
        !options_.comment.empty() && text().compare(at_, options_.comment.size(), options_.comment) == 0;
    size_t end = at_;
    while (end < text().size() && !is_line_end(text()[end]) && (comment || (options_.trim && blank_at(end)))) ++end;
    if (!comment && end < text().size() && !is_line_end(text()[end])) return false;
    at_ = past_line_end(end);
    return true;
  }

  bool blank_at(size_t i) { return i < text().size() && is_blank(text()[i]) && text()[i] != options_.separator; }
  bool ends_field(size_t i) { return i >= text().size() || text()[i] == options_.separator || is_line_end(text()[i]); }

  size_t past_line_end(size_t i) {
    if (i + 1 < text().size() && text()[i] == '\r' && text()[i + 1] == '\n') return i + 2;
    return std::min(i + 1, text().size());
  }

  /// Reads the fields of the row at at_ and moves at_ after the row. Returns the row's problem, if it has one.
  std::optional<Problem> read_fields(std::vector<CsvTable::Field>& fields) {
    const size_t row = at_;
    std::optional<Problem> problem;
    for (;;) {
      fields.push_back(read_field(problem));
      if (at_ >= text().size() || is_line_end(text()[at_])) break;
      ++at_;  // the separator
    }
    const auto bad = std::lower_bound(invalid_.begin(), invalid_.end(), row);
    if (bad != invalid_.end() && *bad < at_)
      problem = {*bad, fmt::format("the byte at position {} of the file", *bad), "it is not UTF-8"};
    row_end_ = at_;
    at_ = past_line_end(at_);
    return problem;
  }

  CsvTable::Field read_field(std::optional<Problem>& problem) {
    const size_t first = at_;
    if (options_.trim)
      while (blank_at(at_)) ++at_;
    if (at_ < text().size() && text()[at_] == '"') return read_quoted(problem);
    if (!options_.trim) at_ = first;
    const size_t begin = at_;
    while (!ends_field(at_)) ++at_;
    size_t end = at_;
    if (options_.trim)
      while (end > begin && is_blank(text()[end - 1])) --end;
    return {begin, end - begin};
  }

  CsvTable::Field read_quoted(std::optional<Problem>& problem) {
    const size_t quote = at_++;
    const size_t begin = at_;
    size_t out = begin;
    for (;; ++at_) {
      if (at_ >= text().size())
        fail_user({.where = place(quote),
                   .what = "a quoted field begins here",
                   .why = "the file ends without its closing quote",
                   .next = "add the closing quote"});
      if (text()[at_] == '"') {
        if (at_ + 1 >= text().size() || text()[at_ + 1] != '"') break;
        ++at_;  // a doubled quote becomes one quote
      }
      text()[out++] = text()[at_];
    }
    ++at_;
    if (options_.trim)
      while (blank_at(at_)) ++at_;
    if (!ends_field(at_)) {
      if (!problem)
        problem = {at_, "text after a closing quote",
                   "a quoted field ends with its quote; quotes inside it are doubled"};
      while (!ends_field(at_)) ++at_;
    }
    return {begin, out - begin};
  }

  bool read_header() {
    std::vector<CsvTable::Field> fields;
    if (auto problem = read_fields(fields))
      fail_user(
          {.where = place(problem->at), .what = problem->what, .why = problem->why, .next = "correct the header"});
    std::unordered_map<std::string, size_t> known;
    for (size_t i = 0; i < fields.size(); ++i) {
      std::string name(std::string_view(text()).substr(fields[i].begin, fields[i].length));
      if (name.empty()) name = fmt::format("column {}", i + 1);
      if (auto [other, is_new] = known.try_emplace(name, i); !is_new)
        fail_user({.where = place(fields[i].begin),
                   .what = fmt::format("a second column \"{}\"", name),
                   .why = fmt::format("columns {} and {} have one name", other->second + 1, i + 1),
                   .next = "rename one of them"});
      table_.names_.push_back(std::move(name));
    }
    return true;
  }

  void read_row() {
    std::vector<CsvTable::Field>& fields = table_.fields_;
    const size_t before = fields.size();
    std::optional<Problem> problem = read_fields(fields);
    const size_t count = fields.size() - before;
    if (table_.names_.empty() && !problem)
      for (size_t i = 1; i <= count; ++i) table_.names_.push_back(fmt::format("column {}", i));
    const size_t expected = table_.names_.size();
    if (!problem && count != expected)
      problem = {count > expected ? fields[before + expected].begin : row_end_,
                 fmt::format("a row of {} field{}", count, count == 1 ? "" : "s"),
                 fmt::format("{} {}",
                             options_.header           ? "the header has"
                             : !options_.names.empty() ? "the columns are"
                                                       : "the first row has",
                             expected)};
    if (!problem) {
      ++table_.rows_;
      return;
    }
    if (options_.on_error == OnError::fail)
      fail_user({.where = place(problem->at), .what = problem->what, .why = problem->why, .next = kCorrectTheRow});
    fields.resize(before);
    ++table_.skipped_;
  }

  const CsvOptions& options_;
  CsvTable table_;
  std::vector<size_t> invalid_;  // bytes that are not UTF-8, ascending
  size_t at_ = 0;
  size_t row_end_ = 0;  // end of the last row, before its line end
};

const CsvTable::Field& CsvTable::at(int64_t row, int64_t column) const {
  check_internal(row >= 0 && row < rows_ && column >= 0 && column < columns(), "a field lies inside its table");
  return fields_[static_cast<size_t>(row * columns() + column)];
}

std::string_view CsvTable::field(int64_t row, int64_t column) const {
  const Field& field = at(row, column);
  return std::string_view(text_).substr(field.begin, field.length);
}

bool CsvTable::is_missing(int64_t row, int64_t column) const {
  const std::string_view text = field(row, column);
  return std::find(kMissingWords.begin(), kMissingWords.end(), text) != kMissingWords.end() ||
         std::find(missing_.begin(), missing_.end(), text) != missing_.end();
}

bool CsvTable::is_missing_number(int64_t row, int64_t column) const {
  const std::string_view text = field(row, column);
  return is_missing(row, column) || is_nan(text) ||
         std::find(kMissingNumbers.begin(), kMissingNumbers.end(), text) != kMissingNumbers.end();
}

std::string CsvTable::position(int64_t row, int64_t column) const {
  const size_t begin = at(row, column).begin;
  const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), begin) - line_starts_.begin();
  return fmt::format("{}:{}:{}", file_, line, begin - line_starts_[static_cast<size_t>(line) - 1] + 1);
}

CsvTable parse_csv(std::string text, const std::string& file, const CsvOptions& options) {
  return CsvReader(std::move(text), file, options).read();
}

CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options) {
  std::vector<uint8_t> bytes = read_file(file, "check the path");
  if (is_gzip(bytes)) bytes = gunzip(bytes, file, "the file is damaged or cut short: get it again");
  return parse_csv(std::string(bytes.begin(), bytes.end()), file.string(), options);
}

}  // namespace trireme
