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

bool has_data_shards(const Plan& plan) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [](const LayerPlan& layer) { return layer.data > 1; });
}

bool VerifyResult::ok() const {
  return loss_difference <= tolerance && std::all_of(rows.begin(), rows.end(), [&](const VerifyRow& row) {
           return row.parameter_difference <= tolerance && row.gradient_difference <= tolerance;
         });
}

double verify_tolerance(Precision precision) {
  return precision == Precision::fp64 ? 1e-10 : precision == Precision::fp32 ? 2e-4 : 0.1;
}

VerifyResult verify(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                    int64_t steps) {
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
  VerifyResult result;
  result.steps = steps;
  result.tolerance = verify_tolerance(experiment.precision);
  int reference_micro_batches = 1;
  if (has_batch_norm(model)) {
    if (has_data_shards(plan) && experiment.batch_norm != BatchNormScope::global)
      fail_user({experiment.where("batch_norm"), fmt::format("\"{}\"", name_of(experiment.batch_norm)),
                 "takes statistics per data shard, so the run differs from a single device by design",
                 "use --set batch_norm=global"});
    reference_micro_batches = plan.micro_batches;
    if (plan.micro_batches > 1)
      result.note = fmt::format(
          "batch norm takes its statistics per micro-batch: the reference is one device with the same {} micro-batches",
          plan.micro_batches);
  }
  check_shapes(experiment, model, data, plan);
  const Batches batches(experiment, data);
  const BatchSampler& sampler = batches.sampler();
  auto batch_of = [&](int64_t step) { return batch_from(batches.training(step)); };
  LockstepOptions options{
      .steps = steps,
      .precision = experiment.precision,
      .worker = {.seed = experiment.seed, .batch_norm = experiment.batch_norm, .optimizer = experiment.optimizer},
      .clip_norm = experiment.clip_norm,
      .frozen = frozen_of(experiment),
      .private_replicas = experiment.private_replicas,
      .steps_per_epoch = sampler.steps_per_epoch()};
  const int64_t total = steps_of(experiment.length, sampler.steps_per_epoch());
  options.learning_rate_of = [&, total](int64_t step) {
    return learning_rate_at(experiment, step, total, sampler.steps_per_epoch());
  };
  Plan single = named_plan(fmt::format("data=1,micro_batches={}", reference_micro_batches), model, Cluster::uniform(1),
                           experiment.batch, {});
  auto expected = run_lockstep(model, single, batch_of, options);
  auto actual = run_lockstep(model, plan, batch_of, options);
  for (size_t s = 0; s < expected.size(); ++s) {
    const double parameter_floor = kNegligible * largest_of(expected[s].parameters);
    const double gradient_floor = kNegligible * largest_of(expected[s].gradients);
    const double loss_difference = std::abs(actual[s].loss - expected[s].loss) / std::abs(expected[s].loss);
    // A NaN would compare as no difference; it must not pass.
    result.loss_difference = std::isfinite(loss_difference) ? std::max(result.loss_difference, loss_difference)
                                                            : std::numeric_limits<double>::infinity();
    for (size_t e = 0; e < expected[s].names.size(); ++e) {
      const std::string& name = expected[s].names[e];
      auto a = size_t(std::find(actual[s].names.begin(), actual[s].names.end(), name) - actual[s].names.begin());
      if (s == 0) result.rows.push_back({name, 0, 0});
      VerifyRow& row = result.rows[e];
      row.parameter_difference =
          std::max(row.parameter_difference,
                   relative_difference(actual[s].parameters[a], expected[s].parameters[e], parameter_floor));
      if (expected[s].gradients[e].defined())  // not frozen
        row.gradient_difference =
            std::max(row.gradient_difference,
                     relative_difference(actual[s].gradients[a], expected[s].gradients[e], gradient_floor));
    }
  }
  return result;
}

}  // namespace trireme
