// The comparison as columns of ready-made text: what the terminal's table and the HTML report both show.
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

/// Strategy and devices first (what names a row), then plan, status, times, communication, memory and quality. Columns
/// that hold no value in any row are left out. Each column uses one unit, chosen by its largest value.
std::vector<Column> comparison_columns(const ExperimentResult& result);
constexpr int kNamingColumns = 2;

/// Memory at the peak, by category: one line per row and device. Names: strategy, devices, device.
std::vector<Column> memory_columns(const ExperimentResult& result);

/// Metrics of single classes at the last evaluation: one line per class, one column per row that has them. Names:
/// class.
std::vector<Column> class_columns(const ExperimentResult& result);

/// What each block got: one line per row, stage and run of blocks that got the same. Names: strategy, devices.
std::vector<Column> block_columns(const ExperimentResult& result);

/// What to know about strategies that are in the rows: that `asa` is a reconstruction.
std::vector<std::string> strategy_notes(const ExperimentResult& result);

/// What belongs below the table: "[1] 4 workers share 2 cores: ..." once for each warning; status cells carry its
/// number.
std::vector<std::string> footnotes(const ExperimentResult& result);

/// "tensor on 4 devices: timed out: no step in 60 s" for each row that is not ok.
std::vector<std::string> failures(const ExperimentResult& result);

/// What ran, on what, and which strategy did best, in sentences.
std::vector<std::string> summary(const ExperimentResult& result);

/// "hybrid:tensor": the plan's name where the row has one, else its strategy.
std::string variant_name(const RunResult& row);

/// "data on 2 devices"
std::string row_name(const RunResult& row);

}  // namespace trireme
