#include "data/tables/tensor_dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kImageDims = 4;  // [n, channels, height, width]

/// Throws a user error that names the first value of `values` outside 0 .. limit - 1.
void check_below(const at::Tensor& values, int64_t limit, const char* what, const char* next) {
  const at::Tensor bad = values.lt(0).logical_or_(values.ge(limit)).flatten();
  if (!bad.any().item<bool>()) return;
  const int64_t first = bad.to(at::kByte).argmax().item<int64_t>();
  const int64_t per_sample = values.numel() / values.size(0);
  fail_user({.where = fmt::format("{} of sample {}", what, first / per_sample),
             .what = std::to_string(values.flatten()[first].item<int64_t>()),
             .why = limit == 1 ? "it can only be 0" : fmt::format("must lie in 0 to {}", limit - 1),
             .next = next});
}

at::Tensor rows_of(const at::Tensor& from, std::span<const int64_t> indices) {
  at::Tensor rows = from.index_select(0, at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong));
  return rows.dim() == kImageDims && rows.is_floating_point() ? rows.contiguous(at::MemoryFormat::ChannelsLast) : rows;
}

}  // namespace

TensorDataset::TensorDataset(at::Tensor data, at::Tensor target, LearningTask task, int64_t classes, int64_t vocabulary)
    : data_(std::move(data)), target_(std::move(target)), task_(task), classes_(classes), vocabulary_(vocabulary) {
  check_internal(data_.scalar_type() == (vocabulary_ > 0 ? at::kLong : at::kFloat), "data is float32, or int64 tokens");
  check_internal(target_.scalar_type() == (task == LearningTask::regression ? at::kFloat : at::kLong),
                 "targets have their task's dtype");
  check_internal(data_.dim() > 0 && target_.dim() > 0, "samples lie along dim 0");
  if (data_.size(0) != target_.size(0) || data_.size(0) == 0)
    fail_user({.where = "data",
               .what = fmt::format("{} samples and {} targets", data_.size(0), target_.size(0)),
               .why = "every sample has one target, and there is at least one",
               .next = "check the files"});
  if (task != LearningTask::regression) check_below(target_, classes_, "target", "correct it, or state classes");
  if (vocabulary_ > 0) check_below(data_, vocabulary_, "token", "correct it, or state the vocabulary");
}

Samples TensorDataset::get(std::span<const int64_t> indices, const Draw&) const {
  for (const int64_t i : indices) check_internal(i >= 0 && i < size(), "a sample index lies inside its dataset");
  return {rows_of(data_, indices), rows_of(target_, indices)};
}

void TensorDataset::keep_first(int64_t n) {
  if (n <= 0 || n >= size()) return;
  data_ = data_.narrow(0, 0, n);
  target_ = target_.narrow(0, 0, n);
}

}  // namespace trireme
