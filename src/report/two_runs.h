// What differs between two runs: settings, and the rows that both have.
#pragma once

#include <string>
#include <vector>

#include "metrics/result.h"
#include "report/columns.h"

namespace trireme {

/// The names of the two runs on pages and in tables.
constexpr const char* kRunNames[] = {"A", "B"};

struct RunChanges {
  /// Whether both are the same training, which run is faster, in how many of the rows that both have, by how much, and
  /// which rows are not ok.
  std::vector<std::string> verdict;
  std::vector<std::string> settings;  ///< "batch: 128 in A, 256 in B"; empty: all are equal
  std::string curve_settings;         ///< "batch and seed": those of the settings that change the curve of the loss
  /// One line per strategy and number of devices. The first two columns name the row. Empty if neither run has rows.
  std::vector<Column> columns;
};

/// Rows belong together if their strategy (with its variant) and their number of devices are equal, and where each run
/// has one row.
RunChanges changes_between(const ExperimentResult& a, const ExperimentResult& b);

}  // namespace trireme
