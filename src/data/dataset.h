// Samples by index, for training and for testing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensor/placement.h"

namespace trireme {

/// Samples stacked along dim 0.
struct Samples {
  at::Tensor data;    ///< float32, [n, ...sample shape], NCHW and channels_last for images
  at::Tensor target;  ///< int64 [n] for classification
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
  virtual int64_t classes() const = 0;
  virtual Samples get(std::span<const int64_t> indices, const Draw& draw) const = 0;
};

/// A train and a test set, and where they came from in words ("MNIST, /data/mnist" or "generated digits: no MNIST was found").
struct TaskData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::string source;
  bool generated = false;
};

}  // namespace trireme
