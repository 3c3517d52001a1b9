#include "train/verify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/infinity.h"
#include "experiment/batches.h"
#include "plan/named.h"
#include "runtime/replicas/replicas.h"
#include "schedule/kinds.h"
#include "train/lockstep.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kNegligible = 1e-4;  // see VerifyRow
/// A plan rounds at other places than one device does, but about as often. So two such runs differ by little more than
/// each of them differs from fp32.
constexpr double kTimesRounding = 3;
constexpr double kElementsOtherWay = 2;

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

bool VerifyDifference::ok() const { return std::isfinite(value) && value <= allowed; }

bool VerifyResult::ok() const {
  return loss.ok() && std::all_of(rows.begin(), rows.end(),
                                  [](const VerifyRow& row) { return row.weights.ok() && row.gradient.ok(); });
}

double verify_tolerance(Precision precision) {
  return precision == Precision::fp64 ? 1e-10 : precision == Precision::fp32 ? 2e-4 : 0.25;
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

LockstepOptions lockstep_options(const RunSpec& experiment, int64_t steps, const BatchSampler& sampler) {
  const int64_t steps_per_epoch = sampler.steps_per_epoch();
  LockstepOptions options{
      .steps = steps,
      .precision = experiment.precision,
      .worker = {.seed = experiment.seed, .batch_norm = experiment.batch_norm, .optimizer = experiment.optimizer},
      .clip_norm = experiment.clip_norm,
      .frozen = frozen_of(experiment),
      .private_replicas = experiment.private_replicas,
      .starts_anew = [&sampler, steps_per_epoch](int64_t step) { return sampler.starts_anew(step % steps_per_epoch); }};
  const int64_t total = steps_of(experiment.length, steps_per_epoch);
  options.learning_rate_of = [&experiment, total, steps_per_epoch](int64_t step) {
    return learning_rate_at(experiment, step, total, steps_per_epoch);
  };
  return options;
}

/// Keeps the difference that is greatest relative to `allowed`. A difference that is not finite is never replaced.
void keep_greatest(double value, double allowed, VerifyDifference& kept) {
  if (!std::isfinite(kept.value)) return;
  const bool is_first = kept.allowed == 0;
  if (is_first || !std::isfinite(value) || value * kept.allowed > kept.value * allowed) kept = {value, allowed};
}

/// Returns where the parameter is among the names of another run.
size_t place_in(const Snapshot& other, const std::string& name) {
  return size_t(std::find(other.names.begin(), other.names.end(), name) - other.names.begin());
}

double loss_difference(const Snapshot& actual, const Snapshot& expected) {
  const double difference = std::abs(actual.loss - expected.loss) / std::abs(expected.loss);
  // A NaN would compare as no difference; it must not pass.
  return std::isfinite(difference) ? difference : kInfinity;
}

void name_rows(const Snapshot& expected, VerifyResult& result) {
  if (!result.rows.empty()) return;
  result.rows.reserve(expected.names.size());
  for (const std::string& name : expected.names)
    result.rows.push_back({.parameter = name, .weights = {}, .gradient = {}});
}

/// Adds the differences of one step; the greatest so far are kept.
void add_differences(const Snapshot& expected, const Snapshot& actual, VerifyResult& result) {
  const double parameter_floor = kNegligible * largest_of(expected.parameters);
  const double gradient_floor = kNegligible * largest_of(expected.gradients);
  keep_greatest(loss_difference(actual, expected), result.tolerance, result.loss);
  name_rows(expected, result);
  for (size_t e = 0; e < expected.names.size(); ++e) {
    const size_t a = place_in(actual, expected.names[e]);
    VerifyRow& row = result.rows[e];
    keep_greatest(relative_difference(actual.parameters[a], expected.parameters[e], parameter_floor), result.tolerance,
                  row.weights);
    const double gradient =  // undefined: frozen
        expected.gradients[e].defined()
            ? relative_difference(actual.gradients[a], expected.gradients[e], gradient_floor)
            : 0;
    keep_greatest(gradient, result.tolerance, row.gradient);
  }
}

/// Differences of tensors by their norms, relative to norms: of each tensor, and of all together.
struct NormDifferences {
  std::vector<double> each;
  double all = 0;
};

double norm_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).norm().item<double>(); }

/// `differences`, `sizes`: norms, by tensor.
NormDifferences relative_norms(const std::vector<double>& differences, const std::vector<double>& sizes) {
  const double floor = kNegligible * *std::max_element(sizes.begin(), sizes.end());
  const auto ratio = [](double difference, double size) {
    if (!std::isfinite(difference) || !std::isfinite(size)) return kInfinity;
    return difference == 0 ? 0.0 : size > 0 ? difference / size : difference;
  };
  NormDifferences relative;
  relative.each.reserve(sizes.size());
  double difference_squares = 0, size_squares = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    relative.each.push_back(ratio(differences[k], std::max(sizes[k], floor)));
    difference_squares += differences[k] * differences[k];
    size_squares += sizes[k] * sizes[k];
  }
  relative.all = ratio(std::sqrt(difference_squares), std::sqrt(size_squares));
  return relative;
}

/// How far a run's step is from one device's.
struct StepDifferences {
  NormDifferences weights, gradients;
  double loss = 0;
};

StepDifferences differences_of(const Snapshot& actual, const Snapshot& expected,
                               const std::vector<at::Tensor>& initial) {
  std::vector<double> weights, ways, gradients, gradient_sizes;
  for (std::vector<double>* norms : {&weights, &ways, &gradients, &gradient_sizes})
    norms->reserve(expected.names.size());
  for (size_t e = 0; e < expected.names.size(); ++e) {
    const size_t a = place_in(actual, expected.names[e]);
    const at::Tensor& gradient = expected.gradients[e];
    weights.push_back(norm_of(actual.parameters[a] - expected.parameters[e]));
    ways.push_back(norm_of(expected.parameters[e] - initial[e]));
    gradients.push_back(gradient.defined() ? norm_of(actual.gradients[a] - gradient) : 0);
    gradient_sizes.push_back(gradient.defined() ? norm_of(gradient) : 0);
  }
  return {relative_norms(weights, ways), relative_norms(gradients, gradient_sizes), loss_difference(actual, expected)};
}

/// The greatest differences so far that are due to rounding in bf16.
class Rounding {
 public:
  explicit Rounding(size_t tensors) : weights_(tensors), gradients_(tensors) {}

  void add(const StepDifferences& step) {
    add(step.weights, weights_, all_weights_);
    add(step.gradients, gradients_, all_gradients_);
    loss_ = std::max(loss_, step.loss);
  }
  double weights(size_t k) const { return std::max(weights_[k], all_weights_); }
  double gradient(size_t k) const { return std::max(gradients_[k], all_gradients_); }
  double loss() const { return loss_; }

 private:
  static void add(const NormDifferences& step, std::vector<double>& each, double& all) {
    for (size_t k = 0; k < each.size(); ++k) each[k] = std::max(each[k], step.each[k]);
    all = std::max(all, step.all);
  }

  std::vector<double> weights_, gradients_;
  double all_weights_ = 0, all_gradients_ = 0, loss_ = 0;
};

/// The parameters before the first step.
std::vector<at::Tensor> initial_parameters(const Model& model, uint64_t seed, const std::vector<std::string>& names) {
  std::vector<at::Tensor> parameters;
  parameters.reserve(names.size());
  const std::vector<ParameterSpec> specs = model.parameters();
  for (const std::string& name : names) {
    const InitialValues* given = model.initial_values().get();
    if (given != nullptr && given->tensors.contains(name)) {
      parameters.push_back(given->tensors.at(name));
      continue;
    }
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& known) { return known.name == name; });
    check_internal(spec != specs.end(), "a run's parameters are the model's");
    parameters.push_back(drawn_parameter(*spec, seed));
  }
  return parameters;
}

}  // namespace

void compare_bf16_runs(const std::vector<Snapshot>& expected, const std::vector<Snapshot>& actual,
                       const std::vector<Snapshot>& wide, const std::vector<at::Tensor>& initial,
                       VerifyResult& result) {
  name_rows(expected.front(), result);
  Rounding rounding(initial.size());
  const auto allowed = [&](double rounded) { return std::max(result.tolerance, kTimesRounding * rounded); };
  for (size_t s = 0; s < expected.size(); ++s) {
    rounding.add(differences_of(wide[s], expected[s], initial));
    const StepDifferences step = differences_of(actual[s], expected[s], initial);
    keep_greatest(step.loss, allowed(rounding.loss()), result.loss);
    for (size_t k = 0; k < result.rows.size(); ++k) {
      const double other_way = 2 * std::sqrt(kElementsOtherWay / double(std::max<int64_t>(1, initial[k].numel())));
      keep_greatest(step.weights.each[k], std::max(other_way, allowed(rounding.weights(k))), result.rows[k].weights);
      keep_greatest(step.gradients.each[k], allowed(rounding.gradient(k)), result.rows[k].gradient);
    }
  }
}

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
  const LockstepOptions options = lockstep_options(experiment, steps, batches.sampler());
  const Plan single = named_plan(fmt::format("data=1,micro_batches={}", reference_micro_batches), model,
                                 Cluster::uniform(1), experiment.batch, {});
  const auto expected = run_lockstep(model, single, batch_of, options);
  const auto actual = run_lockstep(model, plan, batch_of, options);
  if (experiment.precision == Precision::bf16) {
    LockstepOptions wide = options;
    wide.precision = Precision::fp32;
    const std::vector<at::Tensor> initial = initial_parameters(model, experiment.seed, expected.front().names);
    compare_bf16_runs(expected, actual, run_lockstep(model, single, batch_of, wide), initial, result);
    return result;
  }
  for (size_t s = 0; s < expected.size(); ++s) add_differences(expected[s], actual[s], result);
  return result;
}

}  // namespace trireme
