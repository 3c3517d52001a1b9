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
  /// int64 [n, ...target shape]: [n] for classification, of pixels for segmentation with -1 (kIgnoredPixel) where a
  /// pixel counts neither in the loss nor in a metric; float32 for regression, and [n, classes] for classification with
  /// mixup: shares that add up to 1
  at::Tensor target;
};

/// Which draw of the random augmentation: keyed by seed, epoch and sample index, never by worker.
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
  /// Classes to tell apart (of pixels, of next tokens); regression: values to predict.
  virtual int64_t classes() const = 0;
  /// Of token ids in `data`, 0 .. vocabulary - 1 with kPadding past a sample's end; 0: `data` holds no tokens.
  virtual int64_t vocabulary() const { return 0; }
  /// Whether sample i + 1 goes on where sample i ends (windows of one text), so that batches go in SampleOrder::stream.
  virtual bool is_stream() const { return false; }
  /// Whether `get` reads or decodes files, which is worth doing ahead of training.
  virtual bool decodes() const { return false; }
  virtual Samples get(std::span<const int64_t> indices, const Draw& draw) const = 0;
};

/// A train and a test set, and where they came from in words ("MNIST, /data/mnist" or "generated digits: no MNIST was
/// found").
struct TaskData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::string source;
  bool generated = false;
};

}  // namespace trireme
