// Distinct rows of a table.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace trireme {

/// A parameter [rows, ...] of which a training step reads and changes only the rows that model inputs hold as integers.
struct TrackedTable {
  BucketId bucket = -1;
  int shard = -1;                  ///< the whole parameter, in that bucket
  std::vector<NodeId> row_inputs;  ///< of the model
};

/// Rows in the order in which they came first. Nothing that it does takes time that grows with the table, but its
/// construction.
class RowSet {
 public:
  explicit RowSet(int64_t table_rows) : seen_(size_t(table_rows), false) {}

  int64_t table_rows() const { return int64_t(seen_.size()); }
  /// `indices`: integers of any shape. Those outside the table are left out: the layer that reads by them says so.
  void add(const at::Tensor& indices);
  const std::vector<int64_t>& rows() const { return rows_; }
  void clear();

 private:
  std::vector<char> seen_;  ///< by row of the table
  std::vector<int64_t> rows_;
};

}  // namespace trireme
