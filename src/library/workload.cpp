#include "trireme/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint_weights.h"
#include "data/open.h"
#include "experiment/make_plan.h"
#include "experiment/read_data.h"
#include "experiment/read_experiment.h"
#include "experiment/replica_spec.h"
#include "forecast/agreement_plan.h"
#include "forecast/predict.h"
#include "forecast/predictions.h"
#include "plan/cluster_file.h"
#include "program/compile.h"
#include "program/draw.h"
#include "train/measure_step.h"
#include "train/trainer.h"
#include "train/verify.h"
#include "trireme/config.h"
#include "trireme/error.h"

namespace trireme {

struct Workload::State {
  RunSpec experiment;
  TaskData data;
  Model model;
};

namespace {

/// Seconds after which the search for a plan ends with the best that it has found.
constexpr double kSearchSeconds = 60;

Objective objective_of(SearchGoal goal) {
  switch (goal) {
    case SearchGoal::memory: return Objective::memory;
    case SearchGoal::cost: return Objective::cost;
    case SearchGoal::time: break;
  }
  return Objective::time;
}

std::vector<MetricValue> values_of_metrics(const std::vector<Metric>& metrics) {
  std::vector<MetricValue> values;
  values.reserve(metrics.size());
  for (const Metric& metric : metrics) values.push_back({std::string(metric.name), metric.value});
  return values;
}

TrainingEvaluation evaluation_of(const EvaluationPoint& point) {
  return {.step = point.step,
          .epoch = point.epoch,
          .seconds = point.seconds,
          .loss = point.loss,
          .metrics = values_of_metrics(point.metrics)};
}

TrainingStep step_of(const CurvePoint& point, int64_t total) {
  return {
      .step = point.step, .total_steps = total, .samples = point.samples, .seconds = point.seconds, .loss = point.loss};
}

class HookedObserver final : public TrainObserver {
 public:
  explicit HookedObserver(const TrainingHooks& hooks) : hooks_(hooks) {}

  void on_step(const StepReport& report) override {
    total_steps = report.total_steps;
    if (hooks_.on_step) hooks_.on_step(step_of(report.point, report.total_steps));
  }
  void on_evaluation(const EvaluationPoint& point) override {
    if (hooks_.on_evaluation) hooks_.on_evaluation(evaluation_of(point));
  }
  void on_weights(const Weights& trained) override {
    for (const auto& [name, tensor] : trained.tensors) weights[name] = tensor.clone();
  }

  int64_t total_steps = 0;
  TensorMap weights;

 private:
  const TrainingHooks& hooks_;
};

TrainingResult result_of(const RunResult& run, HookedObserver& observer) {
  TrainingResult result;
  result.ok = run.status == RunStatus::ok;
  result.status = name_of(run.status);
  result.reason = run.reason;
  result.plan = run.plan;
  result.warnings = run.warnings;
  result.samples_per_second = run.samples_per_second;
  if (run.step_seconds) result.step_seconds = run.step_seconds->median;
  for (const MemoryUse& memory : run.memory) result.peak_memory.push_back(memory.peak);
  for (const CurvePoint& point : run.curve) result.steps.push_back(step_of(point, observer.total_steps));
  for (const EvaluationPoint& point : run.evaluations) result.evaluations.push_back(evaluation_of(point));
  if (result.ok) result.weights = std::move(observer.weights);
  return result;
}

const std::atomic<bool> kNever{false};  // a library has no Ctrl-C

Plan best_plan(Predictions& predictions, const RunSpec& experiment, const Model& model, int devices, SearchGoal goal) {
  const DeviceChoice choice = predictions.choice(devices);
  const BestPlanOptions options{objective_of(goal), kSearchSeconds};
  BestPlan best;
  predictions.settle([&] { best = find_best_plan(experiment, model, choice, options); });
  check_found("plan", best);
  check_fits("plan", best, experiment, model, choice, options);
  FinalTrials* const trials = goal == SearchGoal::time ? predictions.final_trials() : nullptr;
  const Finalist* const chosen = trials ? trials->choose(best.finalists, model) : nullptr;
  return (chosen ? *chosen : best.finalists.front()).rated.plan;
}

StepPrediction prediction_of(Predictions& predictions, const RunSpec& experiment, const Model& model,
                             const Plan& plan) {
  RunResult row;
  predictions.settle([&] { row = predict(experiment, model, plan, predictions.source(plan), without_pictures()); });
  StepPrediction prediction;
  prediction.plan = row.plan;
  prediction.fits = row.status != RunStatus::does_not_fit;
  prediction.reason = row.reason;
  if (row.predicted) {
    prediction.step_seconds = row.predicted->step_seconds;
    prediction.peak_memory = row.predicted->peak_memory;
    prediction.basis = row.predicted->basis;
  }
  return prediction;
}

/// Errors (user): the batch is per device.
void check_batch_is_global(const Experiment& experiment) {
  if (awaits_devices(experiment))
    fail_user({experiment.where("batch"), fmt::format("{} per device", experiment.batch_per_device),
               "a workload has one batch, and plans for different numbers of devices", "name the global batch: 128"});
}

}  // namespace

Workload Workload::from_file(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  RunSpec experiment{read_experiment(file, {.set = overrides})};
  take_checkpoint_weights(experiment);
  check_batch_is_global(experiment);
  TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  Model begun = with_initial_weights(experiment, model);
  return Workload(std::make_shared<State>(State{std::move(experiment), std::move(data), std::move(begun)}));
}

Workload Workload::of(Model model, TaskData data, const std::string& settings) {
  RunSpec experiment{read_settings(settings, model.name())};
  check_batch_is_global(experiment);
  note_model(experiment, data);
  return Workload(std::make_shared<State>(State{std::move(experiment), std::move(data), std::move(model)}));
}

const Model& Workload::model() const { return state_->model; }
const TaskData& Workload::data() const { return state_->data; }
int64_t Workload::batch() const { return state_->experiment.batch; }

Plan Workload::plan(const std::string& name, int devices) const {
  const auto& [experiment, data, model] = *state_;
  if (is_update_policy(name)) return plan_with_agreement(name, experiment, model, devices);
  if (!is_planned(name)) return make_plan(name, experiment, model, devices);
  Predictions predictions(experiment, model, data, CostSourceOptions{});
  predictions.use_final_trials(trial_of_finalists(experiment, model, data, kNever));
  return predictions.plan(name, devices);
}

Plan Workload::find_plan(int devices, SearchGoal goal) const {
  const auto& [experiment, data, model] = *state_;
  Predictions predictions(experiment, model, data, CostSourceOptions{});
  predictions.use_final_trials(trial_of_finalists(experiment, model, data, kNever));
  return best_plan(predictions, experiment, model, devices, goal);
}

Plan Workload::find_plan(const Cluster& cluster, SearchGoal goal) const {
  const auto& [experiment, data, model] = *state_;
  Predictions predictions(experiment, model, data, cluster);
  return best_plan(predictions, experiment, model, cluster.size(), goal);
}

StepPrediction Workload::simulate(const Plan& plan) const {
  const auto& [experiment, data, model] = *state_;
  Predictions predictions(experiment, model, data, CostSourceOptions{});
  return prediction_of(predictions, experiment, model, plan);
}

StepPrediction Workload::simulate(const Plan& plan, const Cluster& cluster) const {
  const auto& [experiment, data, model] = *state_;
  Predictions predictions(experiment, model, data, cluster);
  return prediction_of(predictions, experiment, model, plan);
}

Verification Workload::verify(const Plan& plan, int64_t steps) const {
  const auto& [experiment, data, model] = *state_;
  const VerifyResult result = trireme::verify(experiment, model, data, plan, steps);
  Verification verification{
      .ok = result.ok(), .tolerance = result.tolerance, .loss_difference = result.loss.value, .note = result.note};
  for (const VerifyRow& row : result.rows)
    verification.parameter_difference = std::max(verification.parameter_difference, row.weights.value);
  return verification;
}

TrainingResult Workload::train(const Plan& plan, const TrainingHooks& hooks) const {
  RunSpec experiment = state_->experiment;
  experiment.save_weights = true;  // they are part of the result
  HookedObserver observer(hooks);
  const RunResult run =
      trireme::train(experiment, state_->model, state_->data, plan, observer, hooks.stop ? *hooks.stop : kNever);
  return result_of(run, observer);
}

TaskData open_data_set(const std::string& table, uint64_t seed) {
  const ConfigTable read = ConfigTable::from_string(table, "data");
  DataSpec spec = read_data(read, {});
  spec.seed = seed;
  read.finish();
  return open_data(spec);
}

std::string draw_plan(const Plan& plan, const Model& model, int columns) {
  return draw_schedule(compile(model, plan, {}), model, columns);
}

}  // namespace trireme
