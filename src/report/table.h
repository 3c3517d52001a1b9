// The comparison as text for a terminal.
#pragma once

#include <string>

#include "metrics/result.h"
#include "report/two_runs.h"
#include "report/width.h"

namespace trireme {

struct TableStyle {
  /// In columns; a wider table continues in a second block below, which repeats the names of the rows.
  int width = kUsualColumns;
  bool utf8 = true;  ///< box characters; else plain ASCII
};

/// Returns the table, the memory by category, the reasons of rows that are not ok, and the footnotes. Lines are at most
/// `width` columns long, unless the two naming columns and one more do not fit. Ends with a line break.
std::string comparison_table(const ExperimentResult& result, const TableStyle& style = {});

/// Returns the first answer: the table of deciding_columns() and the verdict, then the reasons of rows that are not ok
/// and the footnotes. With `details` the tables of comparison_table() follow the verdict; otherwise a line says that
/// --details prints them. Ends with a line break.
std::string answer(const ExperimentResult& result, bool details, const TableStyle& style = {});

/// Returns the table of what differs between two runs, the settings that differ, and which run is faster. Ends with a
/// line break.
std::string changes_text(const RunChanges& changes, const TableStyle& style = {});

/// Returns the width of standard output (columns_of_output), and whether the locale's encoding is UTF-8.
TableStyle standard_output_style();

}  // namespace trireme
