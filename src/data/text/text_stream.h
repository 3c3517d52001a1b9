// A text as a dataset for language models: windows of token ids; each token predicts the next one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/dataset.h"

namespace trireme {

/// Sample i is tokens [i * window, (i + 1) * window); its targets are the tokens one position later. Every token,
/// except the first and a rest of less than a window, is predicted by exactly one sample. Data and targets are int64
/// [n, window]. Immutable; `get` is thread-safe.
class TextStream final : public Dataset {
 public:
  /// Tokens are in 0 .. vocabulary - 1. User errors: a window below 1; fewer than window + 1 tokens in the text, which
  /// messages call `text`.
  TextStream(std::vector<int32_t> tokens, int64_t vocabulary, int64_t window, const char* text = "the text");

  int64_t size() const override { return (static_cast<int64_t>(tokens_.size()) - 1) / window_; }
  Shape sample_shape() const override { return {window_}; }
  Shape target_shape() const override { return {window_}; }
  int64_t classes() const override { return vocabulary_; }
  LearningTask task() const override { return LearningTask::language; }
  int64_t vocabulary() const override { return classes(); }
  bool is_stream() const override { return true; }

  /// Errors: internal, if an index is out of range.
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

  /// Keeps only the first n samples; 0: all.
  void keep_first(int64_t n);

 private:
  std::vector<int32_t> tokens_;
  int64_t vocabulary_;
  int64_t window_;
};

}  // namespace trireme
