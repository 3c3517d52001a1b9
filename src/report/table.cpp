#include "report/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "report/columns.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr int kGap = 2;
constexpr int kMemoryNamingColumns = 3;
constexpr const char* kMore =
    "To see the other tables, add --details. A run folder has them too: trireme report FOLDER --details, or "
    "report.html.";

/// Replaces the characters outside ASCII that our own text uses.
std::string to_ascii(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"–", "-"}, {"µ", "u"}, {"…", "."}, {"─", "-"}, {"×", "x"}};
  for (auto [from, to] : kSpellings)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

int width_of(const Column& column) {
  int width = std::max(columns_of(column.title), columns_of(column.unit));
  for (const std::string& cell : column.cells) width = std::max(width, columns_of(cell));
  return width;
}

std::string rule(int columns) {
  std::string line;
  for (int i = 0; i < columns; ++i) line += "─";
  return line;
}

template <typename Text>
void append_line(const std::vector<const Column*>& block, Text text, std::string& out) {
  std::string line;
  for (const Column* column : block) {
    if (!line.empty()) line.append(kGap, ' ');
    line += pad_to(text(*column), width_of(*column), column->numeric);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

void append_block(const std::vector<const Column*>& block, std::string& out) {
  int width = -kGap;
  bool units = false;
  for (const Column* column : block) {
    width += width_of(*column) + kGap;
    units |= !column->unit.empty();
  }
  append_line(
      block, [](const Column& c) { return c.title; }, out);
  if (units)
    append_line(
        block, [](const Column& c) { return c.unit; }, out);
  out += rule(width) + "\n";
  for (size_t row = 0; row < block.front()->cells.size(); ++row)
    append_line(
        block, [&](const Column& c) { return c.cells[row]; }, out);
}

/// Fills blocks from left to right; each block begins with the naming columns.
void append_blocks(const std::vector<Column>& columns, size_t naming, int width, std::string& out) {
  size_t next = naming;
  while (next < columns.size()) {
    std::vector<const Column*> block;
    int used = -kGap;
    for (size_t i = 0; i < naming; ++i) {
      block.push_back(&columns[i]);
      used += width_of(columns[i]) + kGap;
    }
    do {
      used += width_of(columns[next]) + kGap;
      block.push_back(&columns[next++]);
    } while (next < columns.size() && used + kGap + width_of(columns[next]) <= width);
    if (!out.empty()) out += "\n";
    append_block(block, out);
  }
}

void append_paragraphs(const std::vector<std::string>& paragraphs, int width, std::string& out) {
  if (!paragraphs.empty()) out += "\n";
  for (const std::string& paragraph : paragraphs) {
    bool first = true;
    for (const std::string& line : wrap(paragraph, width - kGap)) {
      out += (first ? "" : "  ") + line + "\n";
      first = false;
    }
  }
}

}  // namespace

std::string comparison_table(const ExperimentResult& result, const TableStyle& style) {
  std::string out;
  if (result.rows.empty()) return "no rows\n";
  append_blocks(comparison_columns(result), kNamingColumns, style.width, out);
  std::vector<Column> memory = memory_columns(result, /*fold=*/true);
  if (!memory.empty()) {
    out += "\nmemory at the peak of each device\n";
    std::string block;
    append_blocks(memory, kMemoryNamingColumns, style.width, block);
    out += block;
  }
  if (std::vector<Column> classes = class_columns(result); !classes.empty()) {
    out += "\ntest set, by class\n";
    std::string block;
    append_blocks(classes, 1, style.width, block);
    out += block;
  }
  append_paragraphs(failures(result), style.width, out);
  append_paragraphs(footnotes(result), style.width, out);
  return style.utf8 ? out : to_ascii(std::move(out));
}

std::string answer(const ExperimentResult& result, bool details, const TableStyle& style) {
  const std::vector<std::string> verdict = verdict_sentences(result);
  std::string sentences;
  if (!verdict.empty()) append_paragraphs({join(verdict, " ")}, style.width, sentences);
  if (!style.utf8) sentences = to_ascii(std::move(sentences));
  if (result.rows.empty()) return comparison_table(result, style) + sentences;
  std::string out;
  append_blocks(deciding_columns(result), kNamingColumns, style.width, out);
  out += sentences;
  if (!details) {
    append_paragraphs(failures(result), style.width, out);
    append_paragraphs(footnotes(result), style.width, out);
    append_paragraphs({kMore}, style.width, out);
  }
  if (!style.utf8) out = to_ascii(std::move(out));
  return details ? out + "\n" + comparison_table(result, style) : out;
}

std::string changes_text(const RunChanges& changes, const TableStyle& style) {
  std::string out;
  if (!changes.columns.empty()) append_blocks(changes.columns, kNamingColumns, style.width, out);
  append_paragraphs({join(changes.verdict, " ")}, style.width, out);
  append_paragraphs(changes.settings, style.width, out);
  return style.utf8 ? out : to_ascii(std::move(out));
}

TableStyle standard_output_style() {
  TableStyle style{.width = columns_of_output(STDOUT_FILENO)};
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string_view locale = value;
    style.utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
    break;
  }
  return style;
}

}  // namespace trireme
