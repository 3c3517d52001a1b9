// Samples held in two tensors, from tables and files of arrays.
#pragma once

#include "trireme/dataset.h"

namespace trireme {

/// Immutable; `get` is thread-safe.
class TensorDataset final : public Dataset {
 public:
  /// Sample i is data[i] with target[i]. Data are float32, or int64 token ids if `vocabulary` > 0. Targets are float32
  /// [n, classes] for regression, else int64 below `classes`. The tensors are shared, not copied, and must not be
  /// modified afterwards. User errors: different numbers of samples; no samples; a target outside 0 .. classes - 1; a
  /// token outside the vocabulary.
  TensorDataset(at::Tensor data, at::Tensor target, LearningTask task, int64_t classes, int64_t vocabulary = 0);

  int64_t size() const override { return data_.size(0); }
  Shape sample_shape() const override { return data_.sizes().slice(1).vec(); }
  Shape target_shape() const override { return target_.sizes().slice(1).vec(); }
  LearningTask task() const override { return task_; }
  int64_t classes() const override { return classes_; }
  int64_t vocabulary() const override { return vocabulary_; }

  /// Errors: internal, if an index is out of range.
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

  const at::Tensor& data() const { return data_; }
  const at::Tensor& target() const { return target_; }

  /// Keeps only the first n samples; 0: all.
  void keep_first(int64_t n);

 private:
  at::Tensor data_;
  at::Tensor target_;
  LearningTask task_;
  int64_t classes_;
  int64_t vocabulary_;
};

}  // namespace trireme
