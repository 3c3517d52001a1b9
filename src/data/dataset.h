// Samples by index, for training and for testing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/task.h"
#include "tensor/placement.h"

namespace trireme {

/// Samples stacked along dim 0.
struct Samples {
  at::Tensor data;  ///< [n, ...sample shape]: float32, NCHW and channels_last for images; int64 token ids for text
  /// int64 [n, ...target shape]: [n] for classification; for segmentation one class per pixel, with -1 (kIgnoredPixel)
  /// for pixels that count neither in the loss nor in a metric. float32 for regression, and [n, classes] for
  /// classification with mixup: shares that add up to 1.
  at::Tensor target;
};

/// Key of the random augmentation: seed and epoch (and the sample's index), never the worker.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool augment = false;  ///< false when evaluating
};

/// Immutable after construction; `get` may be called from many threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Shape sample_shape() const = 0;
  virtual Shape target_shape() const { return {}; }  ///< of one sample: a class index, or one per token
  virtual LearningTask task() const { return LearningTask::classification; }
  /// Number of classes (of samples, pixels or next tokens); for regression, the number of values to predict.
  virtual int64_t classes() const = 0;
  /// Size of the vocabulary: token ids in `data` are 0 .. vocabulary - 1, with kPadding after a sample's end. 0: `data`
  /// holds no tokens.
  virtual int64_t vocabulary() const { return 0; }
  /// True if sample i + 1 continues sample i (windows of one text), so that batches use SampleOrder::stream.
  virtual bool is_stream() const { return false; }
  /// True if `get` reads or decodes files, so that loading ahead of training is worthwhile.
  virtual bool decodes() const { return false; }
  virtual Samples get(std::span<const int64_t> indices, const Draw& draw) const = 0;
};

/// A training set and a test set, and their origin in words ("MNIST, /data/mnist" or "generated digits: no MNIST was
/// found").
struct TaskData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::string source;
  bool generated = false;
};

}  // namespace trireme
