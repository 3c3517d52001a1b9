// The comparison as columns of formatted text, for the terminal's table and the HTML report.
#pragma once

#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

struct Column {
  std::string title;               ///< "time per step"
  std::string unit;                ///< "ms, median [p10-p90]"; may be empty
  bool numeric = true;             ///< right-aligned
  std::vector<std::string> cells;  ///< one per row; "–" where not measured
};

/// Returns the columns. The first two name the row (strategy and devices); then follow plan, status, times,
/// communication, memory and quality. Columns without a value in any row are omitted. Each column uses one unit, chosen
/// by its largest value.
std::vector<Column> comparison_columns(const ExperimentResult& result);
constexpr int kNamingColumns = 2;

/// Returns the columns by which a user chooses a row, for the short answer: status (if rows differ in it), time per
/// step, speedup over one device, peak memory, final result on the test set, price, prediction next to measurement. The
/// first two columns name the row. Rows whose cells are all equal share one line: "data, zero1".
std::vector<Column> deciding_columns(const ExperimentResult& result);

/// Memory at the peak, by category: one line per row and device. Naming columns: strategy, devices, device. `fold`: a
/// row of many devices has one line, with the least and the most of its devices.
std::vector<Column> memory_columns(const ExperimentResult& result, bool fold = false);

/// Metrics of single classes at the last evaluation: one line per class, one column per row that has them. Naming
/// column: class.
std::vector<Column> class_columns(const ExperimentResult& result);

/// The strategy of each block: one line per row, stage and run of consecutive blocks with the same strategy. Naming
/// columns: strategy, devices.
std::vector<Column> block_columns(const ExperimentResult& result);

/// "128"; "32 per device" where each row has its own; "" if it is not known.
std::string batch_text(const ExperimentResult& result);

/// Returns true if the batch is per device, so that rows differ in their global batch.
bool has_own_batches(const ExperimentResult& result);

/// Says how to compare rows with batches of their own; "" if they have none.
std::string note_on_batches(const ExperimentResult& result);

/// Returns notes about strategies in the rows, for example that `asa` is a reconstruction.
std::vector<std::string> strategy_notes(const ExperimentResult& result);

/// Returns the notes below the table: "[1] 4 workers share 2 cores: ..." once for each warning. Status cells show the
/// number of their warning.
std::vector<std::string> footnotes(const ExperimentResult& result);

/// Returns "tensor on 4 devices: timed out: no step in 60 s" for each row that is not ok. Rows that ended in the same
/// way for the same reason share a line.
std::vector<std::string> failures(const ExperimentResult& result);

/// Returns sentences that say what ran, on which data, and which strategy was best.
std::vector<std::string> summary(const ExperimentResult& result);

/// Returns the part of the summary about the fastest row, at most two sentences per clock. The first says which row it
/// is, by how much, and which row reached the target first. The second says how sure that is, what disturbed the
/// measurements, and what could change the order. If the result has only one row: its time, compared with the
/// prediction, and what it learned. Empty if there is nothing to say.
std::vector<std::string> verdict_sentences(const ExperimentResult& result);

/// Returns the beginning of the first of verdict_sentences(): which row is the fastest; of an only row, what it did or
/// why it did not end normally. Empty if there is none.
std::string verdict_headline(const ExperimentResult& result);

/// "hybrid:tensor": the plan's name if the row has one, otherwise its strategy.
std::string variant_name(const RunResult& row);

/// "3"; of an elastic run "2 (1 to 3)": those of its last group, and the range.
std::string devices_cell(const RunResult& row);

/// "data on 2 devices"
std::string row_name(const RunResult& row);

/// "data on 2 and 4 devices, tensor on 2 devices and 3 more"; up to four rows are named.
std::string names_of(const std::vector<const RunResult*>& rows);

}  // namespace trireme
