// The tables, charts and sentences of a study, from the rows of its runs. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/columns.h"
#include "study/quantities.h"
#include "study/study.h"

namespace trireme {

/// What became of a run of a study.
struct StudyRunResult {
  StudyRows rows;
  std::string problem = "";  ///< why there are no rows; empty: there are
  std::string folder = "";   ///< in the study's folder; it has the run's own report
};

/// Returns true if the part shows rows of the run.
bool shows_run(const StudyPart& part, const StudyRun& run);

/// Returns the indices of the rows that the part shows.
std::vector<size_t> shown_rows(const StudyPart& part, const StudyRows& rows);

/// Returns the part's table of a run: columns that name the row, the value that was searched, one column per quantity,
/// a column with the published numbers after it where there are any, and the reason of rows that did not end normally.
/// Empty: the part has no table, or no row is shown.
std::vector<Column> part_table(const StudyPart& part, const StudyRun& run, const StudyRows& rows);

/// Returns a chart of a run for html/study.js: title, axes, and sets of points. Published numbers of the chart's
/// quantity are sets of their own where the x axis has devices.
nlohmann::json chart_json(const StudyPart& part, const StudyChart& chart, const StudyRun& run, const StudyRows& rows);

/// Returns sentences that say which row to use for which aim: time, result, target (verdict_sentences), money, memory.
/// They are of the first seed.
std::vector<std::string> advice_of(const StudyRows& of_all);

}  // namespace trireme
