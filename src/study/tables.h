// The tables, charts and sentences of a study, from the rows of its runs. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/columns.h"
#include "study/quantities.h"
#include "study/study.h"

namespace trireme {

/// The result of a run of a study.
struct StudyRunResult {
  StudyRows rows;
  std::string problem = "";  ///< why there are no rows; empty: there are
  std::string folder = "";   ///< in the study's folder; it has the run's own report
};

/// A row that a part shows. The run and its rows must outlive it.
struct ShownRow {
  const StudyRun* run;
  const StudyRows* rows;
  size_t row;  ///< its index

  const RunResult& result() const { return rows->result.rows[row]; }
};

/// Gives each run that names a base the rows of that run, also those that are added later. `results` must keep their
/// places.
void link_bases(const std::vector<StudyRun>& runs, std::vector<StudyRunResult>& results);

/// Returns the rows of the run that the part shows.
std::vector<ShownRow> shown_rows(const StudyPart& part, const StudyRun& run, const StudyRows& rows);

/// Returns the part's table of these rows: the run where there are several, columns that name the row, the value that
/// was searched, one column per quantity that some row has, a column with the published numbers after it where there
/// are any, and the reason of rows that did not end normally. Empty: the part has no table, or no row is shown.
std::vector<Column> part_table(const StudyPart& part, const std::vector<ShownRow>& shown);

/// Returns the table of part.sum: a row per strategy and number of devices, a column per run and one with their sum,
/// and a last row with the least of each column, as if the strategy were another one in each run. Empty: the part has
/// none, or no row is shown.
std::vector<Column> part_sum(const StudyPart& part, const std::vector<ShownRow>& shown);

/// Returns the table of each block's strategy in these rows. Empty: the part has none, or no row has blocks.
std::vector<Column> part_blocks(const StudyPart& part, const std::vector<ShownRow>& shown);

/// Returns a chart of these rows for html/study.js: title, axes, and sets of points. Rows of several runs: a set is
/// a run, except in a chart of progress. Published numbers of the chart's quantity are sets of their own where the x
/// axis has devices and all rows are of one run. `shown` must not be empty.
nlohmann::json chart_json(const StudyPart& part, const StudyChart& chart, const std::vector<ShownRow>& shown);

/// Returns sentences that say which row to use for which aim: time, result, target (verdict_sentences), money, memory.
/// They are of the first seed.
std::vector<std::string> advice_of(const StudyRows& of_all);

}  // namespace trireme
