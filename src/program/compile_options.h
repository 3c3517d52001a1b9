// Options of compilation, besides the plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/layer.h"

namespace trireme {

struct CompileOptions {
  bool training = true;  ///< false: forward only, for evaluation
  bool clip_gradients = false;
  bool measures_norm = false;       ///< the norm of the full gradient is reported (StepOutcome::gradient_squares)
  bool layer_norms = false;         ///< the optimizer needs the norm of each parameter before its update (LARS, LAMB)
  bool keep_gradients = false;      ///< for verification: reduce and update in two passes
  bool segment_per_layer = false;   ///< for profiling: each layer is an instruction of its own
  bool mixed_precision = false;     ///< full-precision parameters get buckets of their own
  int64_t bucket_bytes = 25 << 20;  ///< a bucket closes when it reaches this (PyTorch DDP's default)
  int64_t first_bucket_bytes = 1 << 20;
  BatchNormScope batch_norm = BatchNormScope::local;
  bool private_replicas = false;  ///< implied by optimizer sharding and compression
  /// false: skips the checker. For plans of thousands of devices that are only simulated.
  bool checked = true;
  std::vector<std::string> frozen =
      {};  ///< names of parameters that do not change; "layer1.*": all names that start with "layer1."
  /// Of the links. With Overlap::nothing a stage of a pipeline sends gradients to the stage before, and then sums its
  /// own; otherwise each stage would wait for the sums of all stages behind it. Where sums overlap computing they begin
  /// as early as possible.
  Overlap overlap = Overlap::sums;
};

}  // namespace trireme
