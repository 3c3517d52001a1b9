// Trains a few steps under a plan and returns every parameter, gradient and loss: for `trireme verify` and the tests of
// "same seed, any plan, same curve".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/precision.h"
#include "runtime/step.h"
#include "trireme/plan.h"

namespace trireme {

struct Snapshot {
  double loss = 0;  ///< mean over the step's global batch
  /// Norm of the full gradient, before clipping, from what the workers report. NaN: the program keeps no gradients, or
  /// the update was made in a drain.
  double gradient_norm = 0;
  std::vector<std::string> names;      ///< of parameters
  std::vector<at::Tensor> parameters;  ///< full, after the step
  std::vector<at::Tensor> gradients;   ///< full, reduced, before clipping
  std::vector<at::Tensor> averages;    ///< full averaged weights, after the step; undefined if none are stored
};

struct LockstepOptions {
  int64_t steps = 1;
  Precision precision = Precision::fp32;
  WorkerOptions worker;
  double learning_rate = 0.01;
  std::function<double(int64_t step)> learning_rate_of = {};  ///< if set, replaces learning_rate
  double clip_norm = 0;
  std::vector<std::string> frozen = {};
  bool private_replicas = false;
  /// True for a step whose rows do not continue those of the step before. The first step always begins anew; null: no
  /// other does.
  std::function<bool(int64_t step)> starts_anew = {};
  /// Number of steps after which a pipeline without flush is drained, as before an evaluation; 0: only at the end.
  int64_t drain_every = 0;
  std::vector<c10::Device> places = {};  ///< where the workers compute, by rank; empty: on the CPU
  bool one_pass = false;  ///< reduces and updates in one pass, as in training; the snapshots then have no gradients
};

/// Returns one snapshot per step. `batch_of(step)` returns the global batch. Under a schedule without flush the batches
/// overlap: only snapshots taken after a drain have parameters. Errors: as in training.
std::vector<Snapshot> run_lockstep(const Model& model, const Plan& plan,
                                   const std::function<Batch(int64_t step)>& batch_of, const LockstepOptions& options);

/// Returns the largest |a - b| relative to the largest |b| of the tensor, or relative to `floor` if that is larger (0
/// if both tensors are all zero). Infinite if either contains an infinity or a NaN, because nothing is proven then.
double relative_difference(const at::Tensor& a, const at::Tensor& b, double floor = 0);

}  // namespace trireme
