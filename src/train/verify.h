// `trireme verify`: compares training under a plan with training on one device.
#pragma once

#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "trireme/plan.h"

namespace trireme {

/// True if a run differs from one device's by design, under micro-batches or divided batches.
bool has_batch_norm(const Model& model);

struct VerifyRow {
  std::string parameter;
  /// Largest difference over the steps, relative to the tensor's largest magnitude. For a tensor that is tiny compared
  /// with the model's others (less than 1/10,000 of the largest magnitude), it is relative to that share of the largest
  /// magnitude: the gradient of a bias before batch norm is zero except for rounding.
  double parameter_difference = 0;
  double gradient_difference = 0;
};

struct VerifyResult {
  int64_t steps = 0;
  double tolerance = 0;
  double loss_difference = 0;  ///< relative
  std::vector<VerifyRow> rows;
  std::string note;  ///< how the reference differs from plain single-device training, "" if it does not
  bool ok() const;
};

/// Returns the relative difference that rounding may explain: 1e-10 (fp64), 2e-4 (fp32), 0.1 (bf16).
double verify_tolerance(Precision precision);

/// Runs `steps` steps under the plan and on one device from the same seed. With batch norm under micro-batches the
/// reference uses the same micro-batches, and the note says so. With batch_norm = "local" and data shards there is no
/// such reference: user error.
VerifyResult verify(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                    int64_t steps);

}  // namespace trireme
