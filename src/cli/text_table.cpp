#include "cli/text_table.h"

#include <unistd.h>

#include <algorithm>

#include "report/width.h"

namespace trireme {
namespace {

constexpr int kGap = 2;
constexpr int kLeastRoom = 24;  ///< for the text of the last column, so that few words share a line with none

struct TextColumn {
  size_t index = 0;  ///< in the titles and the rows
  int width = 0;
  bool right = false;
};

using Cells = std::vector<std::string>;
using Block = std::vector<TextColumn>;

/// Returns the columns that have a cell with text.
Block used_columns(const Cells& titles, const std::vector<Cells>& rows, const std::vector<size_t>& right) {
  Block used;
  for (size_t c = 0; c < titles.size(); ++c) {
    TextColumn column{c, 0, std::find(right.begin(), right.end(), c) != right.end()};
    for (const Cells& row : rows)
      if (c < row.size()) column.width = std::max(column.width, columns_of(row[c]));
    if (column.width == 0) continue;
    column.width = std::max(column.width, columns_of(titles[c]));
    used.push_back(column);
  }
  return used;
}

int width_of(const Block& block) {
  int width = -kGap;
  for (const TextColumn& column : block) width += kGap + column.width;
  return width;
}

/// Divides the columns among blocks of at most `columns`. Each begins with the first column.
std::vector<Block> blocks_of(const Block& used, int columns) {
  if (used.size() < 2 || width_of(used) <= columns) return {used};
  std::vector<Block> blocks;
  for (size_t next = 1; next < used.size();) {
    Block block = {used.front()};
    do block.push_back(used[next++]);
    while (next < used.size() && width_of(block) + kGap + used[next].width <= columns);
    const bool one_left = next + 1 == used.size() && !used[next].right;
    if (one_left && columns - width_of(block) - kGap >= kLeastRoom) block.push_back(used[next++]);
    blocks.push_back(std::move(block));
  }
  // Text at the end gets the room that is left.
  TextColumn& last = blocks.back().back();
  const int room = columns - (width_of(blocks.back()) - last.width);
  if (!last.right && last.width > room) last.width = std::max(room, kLeastRoom);
  return blocks;
}

/// Returns the lines of a row: several if the last cell is wrapped.
std::string lines_of_row(const Block& block, const Cells& cells) {
  const TextColumn& last = block.back();
  const auto cell_at = [&](size_t index) { return index < cells.size() ? cells[index] : std::string(); };
  const std::string text_of_last = cell_at(last.index);
  const bool fits = columns_of(text_of_last) <= last.width;
  const Cells parts = fits ? Cells{text_of_last} : wrap(text_of_last, std::max(last.width, 1));
  std::string text;
  for (size_t part = 0; part < parts.size(); ++part) {
    std::string line;
    for (const TextColumn& column : block) {
      const bool is_last = column.index == last.index;
      const std::string cell = is_last ? parts[part] : part == 0 ? cell_at(column.index) : std::string();
      line += pad_to(cell, column.width, column.right) + std::string(kGap, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string text_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                       const std::vector<size_t>& right, int columns) {
  const Block used = used_columns(titles, rows, right);
  if (used.empty()) return "";
  std::string text;
  for (const Block& block : blocks_of(used, columns > 0 ? columns : columns_of_output(STDOUT_FILENO))) {
    if (!text.empty()) text += "\n";
    text += lines_of_row(block, titles);
    for (const Cells& row : rows) text += lines_of_row(block, row);
  }
  return text;
}

}  // namespace trireme
