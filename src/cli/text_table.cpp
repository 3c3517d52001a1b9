#include "cli/text_table.h"

#include <algorithm>

#include "report/width.h"

namespace trireme {

std::string text_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                       const std::vector<size_t>& right) {
  std::vector<int> widths(titles.size(), 0);
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (widths[c] == 0) continue;
      const bool to_the_right = std::find(right.begin(), right.end(), c) != right.end();
      text += pad_to(cells[c], std::max(widths[c], columns_of(titles[c])), to_the_right) + "  ";
    }
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = line(titles);
  for (const auto& row : rows) text += line(row);
  return text;
}

}  // namespace trireme
