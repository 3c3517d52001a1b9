// model + plan -> program.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "program/program.h"

namespace trireme {

struct CompileOptions {
  bool training = true;             ///< false: forward only, for evaluation
  bool clip_gradients = false;
  bool layer_norms = false;         ///< the optimizer needs norms of every parameter before its update (LARS, LAMB)
  bool keep_gradients = false;      ///< for verification: reduce and update in two passes
  bool segment_per_layer = false;   ///< for profiling: every layer an instruction of its own
  bool mixed_precision = false;     ///< full-precision parameters in buckets of their own
  int64_t bucket_bytes = 25 << 20;  ///< a bucket closes when it reaches this (PyTorch DDP's default)
  int64_t first_bucket_bytes = 1 << 20;
  BatchNormScope batch_norm = BatchNormScope::local;
  bool private_replicas = false;    ///< implied by optimizer sharding and compression
  /// false: the program has not passed the checker. For plans of thousands of devices that are only simulated.
  bool checked = true;
  std::vector<std::string> frozen = {};  ///< names of parameters that stay as they are; "layer1.*" for all that begin so
};

/// DDP's rule for sizes in bytes in the order in which they become ready: a group closes when it reaches its cap; the first
/// group has a smaller one, so that communication begins early. Returns the number of items of each group.
std::vector<int> group_sizes(const std::vector<int64_t>& bytes, int64_t cap, int64_t first_cap);

/// The plan must be validated. The result has passed the checker, unless that is not asked for. Errors (user): a program that would deadlock, with its cycle; an
/// unknown schedule, or one that does not fit the pipeline; combinations that make no sense (powersgd with optimizer sharding,
/// zero2 without flush); frozen names that the model does not have.
Program compile(const Model& model, const Plan& plan, const CompileOptions& options);

}  // namespace trireme
