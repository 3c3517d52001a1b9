// `trireme verify`: compares training under a plan with training on one device.
#pragma once

#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "train/lockstep.h"
#include "trireme/plan.h"

namespace trireme {

/// True if a run differs from one device's by design, under micro-batches or divided batches.
bool has_batch_norm(const Model& model);

/// A difference at the step where it is greatest, compared with what rounding may explain there.
struct VerifyDifference {
  double value = 0;    ///< relative; see VerifyRow
  double allowed = 0;  ///< at that step
  bool ok() const;
};

/// fp64 and fp32: the largest difference of an element, relative to the tensor's largest magnitude. For a tensor that
/// is tiny compared with the model's others (less than 1/10,000 of the largest magnitude), it is relative to that share
/// of the largest magnitude: the gradient of a bias before batch norm is zero except for rounding. bf16: the norm of
/// the difference, relative to that of the gradient, or to that of the way which the weights have gone since they
/// began, with the same share as the least. An element whose gradient is nearly zero may go either way under optimizers
/// such as Adam; the norm counts it as one of many.
struct VerifyRow {
  std::string parameter;
  VerifyDifference weights, gradient;
};

struct VerifyResult {
  int64_t steps = 0;
  double tolerance = 0;
  VerifyDifference loss;  ///< relative
  std::vector<VerifyRow> rows;
  std::string note;  ///< how the reference differs from plain single-device training, "" if it does not
  bool ok() const;
};

/// Returns the relative difference that rounding may explain: 1e-10 (fp64), 2e-4 (fp32), 0.25 (bf16, of norms). In bf16
/// it may explain more: three times as much as bf16 changes in the run of one device (compare_bf16_runs).
double verify_tolerance(Precision precision);

/// Compares a plan's run in bf16 with one device's, step by step. `wide`: one device's run in fp32, which shows what
/// the rounding of bf16 alone does. `initial`: the parameters before the first step, in the order of `expected`'s
/// names. A tensor's difference is allowed up to the tolerance, or to three times the greatest one so far between
/// `expected` and `wide`, of this tensor or of all together. Weights may also differ as if two elements had gone the
/// other way, which is much in a small tensor. Sets the loss and the rows of `result`.
void compare_bf16_runs(const std::vector<Snapshot>& expected, const std::vector<Snapshot>& actual,
                       const std::vector<Snapshot>& wide, const std::vector<at::Tensor>& initial, VerifyResult& result);

/// Runs `steps` steps under the plan and on one device from the same seed. With batch norm under micro-batches the
/// reference uses the same micro-batches, and the note says so. With batch_norm = "local" and data shards there is no
/// such reference: user error.
VerifyResult verify(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                    int64_t steps);

}  // namespace trireme
