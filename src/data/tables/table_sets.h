// Shared by sets of tables: rows become a task's data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/tables/csv.h"
#include "data/tables/table.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

/// Reads the key `task`; nullopt if it is absent.
std::optional<LearningTask> read_task(const ConfigTable& table);

/// Seed of a test split that is drawn from the training file. It does not depend on the experiment's seed.
inline constexpr uint64_t kSplitSeed = 1;

/// Rows 0..n-1 in random order, cut into training rows and round(n * test_share) test rows.
struct RowSplit {
  std::vector<int64_t> train, test;
};
RowSplit split_rows(int64_t n, double test_share);

/// A table, and its rows that form a split.
struct TableSplit {
  const CsvTable& table;
  std::vector<int64_t> rows;
  int64_t limit = 0;  ///< first rows only; 0: all
};
std::vector<int64_t> all_rows(const CsvTable& table);

TaskData make_tables(TableSplit train, TableSplit test, const TableOptions& options, const std::string& title);

/// Draws both splits from one table. User error: a split without rows.
TaskData open_one_table(const DataSpec& spec, const CsvTable& table, double test_share, const TableOptions& options,
                        const std::string& title);

}  // namespace trireme
