#include "runtime/row_set.h"

#include <ATen/ATen.h>

namespace trireme {

void RowSet::add(const at::Tensor& indices) {
  const at::Tensor flat = indices.to(at::kLong).contiguous();
  const int64_t* index = flat.data_ptr<int64_t>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (index[i] < 0 || index[i] >= table_rows() || seen_[size_t(index[i])]) continue;
    seen_[size_t(index[i])] = true;
    rows_.push_back(index[i]);
  }
}

void RowSet::clear() {
  for (int64_t row : rows_) seen_[size_t(row)] = false;
  rows_.clear();
}

}  // namespace trireme
