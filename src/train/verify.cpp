#include "train/verify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiment/batches.h"
#include "plan/named.h"
#include "schedule/kinds.h"
#include "train/lockstep.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kNegligible = 1e-4;  // see VerifyRow

double largest_of(const std::vector<at::Tensor>& tensors) {
  double largest = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) largest = std::max(largest, tensor.abs().max().item<double>());
  return std::isfinite(largest) ? largest : 0;
}

}  // namespace

bool has_batch_norm(const Model& model) {
  return std::any_of(model.nodes().begin(), model.nodes().end(), [](const Node& node) {
    return node.layer && node.layer->communicates_over_data_axis(BatchNormScope::global);
  });
}

bool VerifyResult::ok() const {
  return loss_difference <= tolerance && std::all_of(rows.begin(), rows.end(), [&](const VerifyRow& row) {
           return row.parameter_difference <= tolerance && row.gradient_difference <= tolerance;
         });
}

double verify_tolerance(Precision precision) {
  return precision == Precision::fp64 ? 1e-10 : precision == Precision::fp32 ? 2e-4 : 0.1;
}

namespace {

/// Errors (user): the plan's curve differs from that of one device by design.
void refuse_other_curves(const RunSpec& experiment, const Model& model, const Plan& plan) {
  const std::string where = fmt::format("plan {}", plan.name);
  if (!plan.agreement.empty())
    fail_user({where, fmt::format("agreement \"{}\"", plan.agreement),
               "replicas differ between two agreements: there is no curve of one device to compare with",
               "verify the inner plan"});
  if (!find_schedule(plan.schedule, where).flushes)
    fail_user({where, fmt::format("schedule \"{}\"", plan.schedule),
               "computes gradients with older weights, so the run differs from a single device by design",
               "verify a schedule that flushes"});
  if (plan.compression.kind != Compression::Kind::none)
    fail_user({where, fmt::format("compression \"{}\"", name_of(plan.compression.kind)),
               "rounds gradients, so the run differs from a single device by design", "verify the plan without it"});
  if (has_batch_norm(model) && plan.divides_batch() && experiment.batch_norm != BatchNormScope::global)
    fail_user({experiment.where("batch_norm"), fmt::format("\"{}\"", name_of(experiment.batch_norm)),
               "takes statistics per data shard, so the run differs from a single device by design",
               "use --set batch_norm=global"});
}

LockstepOptions lockstep_options(const RunSpec& experiment, int64_t steps, int64_t steps_per_epoch) {
  LockstepOptions options{
      .steps = steps,
      .precision = experiment.precision,
      .worker = {.seed = experiment.seed, .batch_norm = experiment.batch_norm, .optimizer = experiment.optimizer},
      .clip_norm = experiment.clip_norm,
      .frozen = frozen_of(experiment),
      .private_replicas = experiment.private_replicas,
      .steps_per_epoch = steps_per_epoch};
  const int64_t total = steps_of(experiment.length, steps_per_epoch);
  options.learning_rate_of = [&experiment, total, steps_per_epoch](int64_t step) {
    return learning_rate_at(experiment, step, total, steps_per_epoch);
  };
  return options;
}

/// Adds the differences of one step: the greatest so far stay.
void add_differences(const Snapshot& expected, const Snapshot& actual, VerifyResult& result) {
  const double parameter_floor = kNegligible * largest_of(expected.parameters);
  const double gradient_floor = kNegligible * largest_of(expected.gradients);
  const double loss_difference = std::abs(actual.loss - expected.loss) / std::abs(expected.loss);
  // A NaN would compare as no difference; it must not pass.
  result.loss_difference = std::isfinite(loss_difference) ? std::max(result.loss_difference, loss_difference)
                                                          : std::numeric_limits<double>::infinity();
  if (result.rows.empty())
    for (const std::string& name : expected.names) result.rows.push_back({name, 0, 0});
  for (size_t e = 0; e < expected.names.size(); ++e) {
    const auto named = std::find(actual.names.begin(), actual.names.end(), expected.names[e]);
    const auto a = size_t(named - actual.names.begin());
    VerifyRow& row = result.rows[e];
    row.parameter_difference = std::max(
        row.parameter_difference, relative_difference(actual.parameters[a], expected.parameters[e], parameter_floor));
    if (expected.gradients[e].defined())  // not frozen
      row.gradient_difference = std::max(
          row.gradient_difference, relative_difference(actual.gradients[a], expected.gradients[e], gradient_floor));
  }
}

}  // namespace

VerifyResult verify(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                    int64_t steps) {
  refuse_other_curves(experiment, model, plan);
  VerifyResult result;
  result.steps = steps;
  result.tolerance = verify_tolerance(experiment.precision);
  const int reference_micro_batches = has_batch_norm(model) ? plan.micro_batches : 1;
  if (reference_micro_batches > 1)
    result.note = fmt::format(
        "batch norm takes its statistics per micro-batch: the reference is one device with the same {} micro-batches",
        plan.micro_batches);
  check_shapes(experiment, model, data, plan);
  const Batches batches(experiment, data);
  const auto batch_of = [&](int64_t step) { return batch_from(batches.training(step)); };
  const LockstepOptions options = lockstep_options(experiment, steps, batches.sampler().steps_per_epoch());
  const Plan single = named_plan(fmt::format("data=1,micro_batches={}", reference_micro_batches), model,
                                 Cluster::uniform(1), experiment.batch, {});
  const auto expected = run_lockstep(model, single, batch_of, options);
  const auto actual = run_lockstep(model, plan, batch_of, options);
  for (size_t s = 0; s < expected.size(); ++s) add_differences(expected[s], actual[s], result);
  return result;
}

}  // namespace trireme
