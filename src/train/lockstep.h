// Trains a few steps under a plan and shows every parameter, gradient and loss: for `trireme verify` and the tests of
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
  double loss = 0;                     ///< mean over the step's global batch
  std::vector<std::string> names;      ///< of parameters
  std::vector<at::Tensor> parameters;  ///< full, after the step
  std::vector<at::Tensor> gradients;   ///< full, reduced, before clipping
  std::vector<at::Tensor> averages;    ///< full averaged weights, after the step; undefined where none are kept
};

struct LockstepOptions {
  int64_t steps = 1;
  Precision precision = Precision::fp32;
  WorkerOptions worker;
  double learning_rate = 0.01;
  std::function<double(int64_t step)> learning_rate_of = {};  ///< wins over learning_rate where set
  double clip_norm = 0;
  std::vector<std::string> frozen = {};
  bool private_replicas = false;
  int64_t steps_per_epoch = 0;  ///< streams begin anew at each; 0: never after the first step
  int64_t drain_every =
      0;  ///< steps after which a pipeline without flush runs empty, as before an evaluation; 0: only at the end
  bool one_pass = false;  ///< reduce and update in one pass as in training; gradients are then not in the snapshots
};

/// One snapshot per step. `batch_of(step)` gives the global batch. Under a schedule without flush the batches overlap:
/// only snapshots taken when the pipeline has run empty have parameters. Errors as in training.
std::vector<Snapshot> run_lockstep(const Model& model, const Plan& plan,
                                   const std::function<Batch(int64_t step)>& batch_of, const LockstepOptions& options);

/// Largest |a - b| relative to the largest |b| of the tensor, or to `floor` where that is larger (0 when both are all
/// zero). Infinite where either holds an infinity or a NaN: nothing is proven then.
double relative_difference(const at::Tensor& a, const at::Tensor& b, double floor = 0);

}  // namespace trireme
