#include "cli/column_table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/counted.h"
#include "base/text.h"
#include "cli/text_table.h"
#include "data/source_words.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr size_t kMostColumns = 16;    // lines of the table
constexpr size_t kListedColumns = 12;  // of a wider one
constexpr size_t kListedValues = 3;    // categories or labels by name
constexpr size_t kLongestValue = 24;   // bytes of a name

std::string shortened(const std::string& text) {
  if (text.size() <= kLongestValue) return text;
  size_t end = kLongestValue;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole UTF-8 characters
  return text.substr(0, end) + "...";
}

/// "16: 10th, 11th, 12th, ..."
std::string listed(const std::vector<std::string>& values) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(values.size(), kListedValues); ++i) shown.push_back(shortened(values[i]));
  return fmt::format("{}: {}{}", values.size(), join(shown), values.size() > kListedValues ? ", ..." : "");
}

std::string scaling_of(const FittedColumn& column) {
  if (column.kind == ColumnKind::categorical)
    return fmt::format("one feature per category{}", column.has_missing ? " and for a missing one" : "");
  std::string text =
      fmt::format("(x {} {:.6g}) / {:.6g}", column.mean < 0 ? "+" : "-", std::abs(column.mean), column.deviation);
  if (column.has_missing) text += fmt::format(", a missing x becomes {:.6g} and is marked", column.median);
  return text;
}

std::vector<std::string> row_of(const FittedColumn& column) {
  const bool categorical = column.kind == ColumnKind::categorical;
  return {shortened(column.name), categorical ? "categorical" : "numeric", with_commas(column.missing),
          categorical ? listed(column.categories) : "", scaling_of(column)};
}

std::string rest_in_words(std::span<const FittedColumn> rest) {
  const auto count = [&](const auto& is) { return std::count_if(rest.begin(), rest.end(), is); };
  const auto numeric = count([](const FittedColumn& c) { return c.kind == ColumnKind::numeric; });
  const auto lacking = count([](const FittedColumn& c) { return c.missing > 0; });
  return fmt::format("and {}: {} numeric, {} categorical, {} with missing values",
                     counted(int64_t(rest.size()), "column"), numeric, int64_t(rest.size()) - numeric, lacking);
}

std::string target_in_words(const InputForm& form) {
  if (!form.labels.empty()) return fmt::format("target {}, classes {}", shortened(form.target), listed(form.labels));
  return fmt::format("target {}, a number{}", shortened(form.target),
                     form.target_unit == 1 ? "" : fmt::format(", divided by {:g}", form.target_unit));
}

}  // namespace

std::vector<std::string> column_table(const InputForm& form) {
  if (!form.is_table()) return {};
  const std::span<const FittedColumn> all = form.columns;
  const size_t shown = all.size() > kMostColumns ? kListedColumns : all.size();
  std::vector<std::vector<std::string>> rows;
  for (const FittedColumn& column : all.first(shown)) rows.push_back(row_of(column));
  std::vector<std::string> lines =
      lines_of(text_table({"column", "kind", "missing", "categories", "scaling"}, rows, {2},
                          columns_of_output(STDOUT_FILENO) - 1));  // progress keeps off the edge
  if (shown < all.size()) lines.push_back(rest_in_words(all.subspan(shown)));
  lines.push_back(target_in_words(form));
  if (!form.left_out.empty()) lines.push_back("left out: " + join(form.left_out));
  return lines;
}

}  // namespace trireme
