// A set of distinct rows of a table.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace trireme {

/// A parameter [rows, ...] of which a training step reads and changes only the rows whose numbers are in integer model
/// inputs.
struct TrackedTable {
  BucketId bucket = -1;
  int shard = -1;                  ///< the whole parameter, in that bucket
  std::vector<NodeId> row_inputs;  ///< of the model
};

/// A set of rows, in the order in which they were first added. Only the constructor takes time that grows with the size
/// of the table.
class RowSet {
 public:
  explicit RowSet(int64_t table_rows) : seen_(size_t(table_rows), false) {}

  int64_t table_rows() const { return int64_t(seen_.size()); }
  /// Adds `indices`: integers of any shape. Indices outside the table are ignored; the layer that reads them reports
  /// the error.
  void add(const at::Tensor& indices);
  const std::vector<int64_t>& rows() const { return rows_; }
  void clear();

 private:
  std::vector<char> seen_;  ///< by row of the table
  std::vector<int64_t> rows_;
};

}  // namespace trireme
