// The comparison as text for a terminal.
#pragma once

#include <string>

#include "metrics/result.h"

namespace trireme {

struct TableStyle {
  int width = 100;  ///< columns; a table that is wider continues in a second block below, which repeats the rows' names
  bool utf8 = true;  ///< box characters; else plain ASCII
};

/// The table, memory by category, why rows are not ok, and footnotes. Lines are at most `width` columns long unless two
/// naming columns and one more do not fit. Ends with a line break.
std::string comparison_table(const ExperimentResult& result, const TableStyle& style = {});

/// Width of the terminal on standard output (100 where it is none) and whether the locale's characters are UTF-8.
TableStyle standard_output_style();

}  // namespace trireme
