#include "train/measure_epochs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "experiment/make_plan.h"
#include "train/trainer.h"
#include "train/verify.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Forwards reports, and ends the run once the target is reached or the user interrupts.
class UntilTarget : public TrainObserver {
 public:
  UntilTarget(double target, TrainObserver& next, const std::atomic<bool>& interrupted)
      : target_(target), next_(next), interrupted_(interrupted) {}

  void on_step(const StepReport& report) override {
    next_.on_step(report);
    if (interrupted_) stop = true;
  }
  void on_evaluation(const EvaluationPoint& point) override {
    next_.on_evaluation(point);
    if (std::isfinite(point.loss) && point.main() && reaches(*point.main(), target_)) stop = true;
  }

  std::atomic<bool> stop{false};

 private:
  const double target_;
  TrainObserver& next_;
  const std::atomic<bool>& interrupted_;
};

void check_request(const Experiment& experiment, const TaskData& data, int64_t batch) {
  if (!experiment.target)
    fail_user({experiment.file.string(), "has no target", "epochs are counted until the target is reached",
               "add target = 0.9, or --set target=0.9"});
  if (batch > data.train->size())
    fail_user({"--batches", fmt::format("{}", batch), "the training set has " + counted(data.train->size(), "sample"),
               "leave it out"});
}

EpochsMeasurement measurement_of(const RunResult& row, const Experiment& experiment, int64_t batch, int micro_batches) {
  EpochsMeasurement m;
  m.point.batch = batch;
  m.micro_batches = micro_batches;
  m.learning_rate = experiment.optimizer.learning_rate;
  m.noise_scale = row.noise_scale;
  if (row.to_target) {
    m.point.epochs = m.trained = row.to_target->epochs;
    m.steps = row.to_target->steps;
    m.seconds = row.to_target->seconds;
    return m;
  }
  m.remark = row.reason;
  if (!row.evaluations.empty()) m.trained = row.evaluations.back().epoch;
  if (row.curve.empty()) return m;
  m.steps = row.curve.back().step;
  m.seconds = row.curve.back().seconds;
  return m;
}

std::string in_words(const Length& length) {
  return fmt::format("{:g} {}", length.count, length.unit == Length::Unit::epochs ? "epochs" : "steps");
}

nlohmann::json optimizer_options(const OptimizerConfig& o) {
  return {{"nesterov", o.nesterov},     {"beta1", o.beta1},
          {"beta2", o.beta2},           {"epsilon", o.epsilon},
          {"alpha", o.alpha},           {"centered", o.centered},
          {"rate_decay", o.rate_decay}, {"initial_accumulator", o.initial_accumulator},
          {"trust", o.trust},           {"ema", o.ema}};
}

nlohmann::json schedule_options(const LearningRateSchedule& s) {
  nlohmann::json at = nlohmann::json::array();
  for (const Length& length : s.decay_at) at.push_back(in_words(length));
  return {{"kind", name_of(s.kind)},
          {"warmup", in_words(s.warmup)},
          {"decay_factor", s.decay_factor},
          {"decay_every", in_words(s.decay_every)},
          {"decay_at", at},
          {"minimum", s.minimum},
          {"power", s.power}};
}

bool diverged(const RunResult& row) { return row.status == RunStatus::failed && row.reason.starts_with("diverged"); }

}  // namespace

const char* name_of(RateRule rule) {
  switch (rule) {
    case RateRule::linear: return "linear";
    case RateRule::square_root: return "sqrt";
    case RateRule::fixed: return "fixed";
  }
  return "";
}

RunSpec with_batch(const RunSpec& experiment, int64_t batch, RateRule rule) {
  RunSpec changed = experiment;
  changed.batch = batch;
  const int64_t reference =
      experiment.schedule.reference_batch > 0 ? experiment.schedule.reference_batch : experiment.batch;
  changed.schedule.reference_batch = 0;
  const double growth = double(batch) / double(reference);
  const double factor = rule == RateRule::linear ? growth : rule == RateRule::square_root ? std::sqrt(growth) : 1;
  changed.optimizer.learning_rate *= factor;
  changed.schedule.minimum *= factor;
  return changed;
}

int micro_batches_for(const Experiment& experiment, int64_t batch, const EpochsRequest& request) {
  if (batch < request.devices)
    fail_user({"--batches", fmt::format("{}", batch), fmt::format("{} workers each need a sample", request.devices),
               "use fewer workers"});
  const int64_t usual = (experiment.batch + request.devices - 1) / request.devices;
  const int64_t samples = request.devices * (request.micro_batch > 0 ? request.micro_batch : usual);
  return int(std::min((batch + samples - 1) / samples, batch / request.devices));
}

nlohmann::json epochs_settings(const RunSpec& experiment, const TaskData& data, const EpochsRequest& request) {
  const OptimizerConfig& optimizer = experiment.optimizer;
  const int64_t most =
      request.micro_batch > 0 ? request.micro_batch : (experiment.batch + request.devices - 1) / request.devices;
  return {{"model", experiment.model_name},
          {"model_options", experiment.model_options},
          {"data", data.source},
          {"training_samples", data.train->size()},
          {"metric", main_metric(data.train->task())},
          {"target", experiment.target.value_or(0)},
          {"length", in_words(experiment.length)},
          {"evaluate_every", in_words(experiment.evaluate_every)},
          {"optimizer", optimizer.kind->name},
          {"momentum", optimizer.momentum},
          {"weight_decay", optimizer.weight_decay},
          {"optimizer_options", optimizer_options(optimizer)},
          {"schedule", schedule_options(experiment.schedule)},
          {"clip_norm", experiment.clip_norm},
          {"label_smoothing", experiment.label_smoothing},
          {"batch_norm", name_of(experiment.batch_norm)},
          {"augment", experiment.data.augment},
          {"frozen", frozen_of(experiment)},
          {"rate_rule", name_of(request.rate)},
          {"rate_for_one_sample", with_batch(experiment, 1, request.rate).optimizer.learning_rate},
          {"most_samples_at_once", most},
          {"workers", request.devices},
          {"precision", name_of(experiment.precision)},
          {"seed", experiment.seed}};
}

void check_epochs_request(const Experiment& experiment, const TaskData& data, const std::vector<int64_t>& batches,
                          const EpochsRequest& request) {
  for (const int64_t batch : batches) {
    check_request(experiment, data, batch);
    micro_batches_for(experiment, batch, request);
  }
}

std::optional<EpochsMeasurement> measure_epochs(const RunSpec& original, const Model& model, const TaskData& data,
                                                int64_t batch, const EpochsRequest& request, TrainObserver& observer,
                                                const std::atomic<bool>& interrupted) {
  check_request(original, data, batch);
  const int micro_batches = micro_batches_for(original, batch, request);
  RunSpec experiment = with_batch(original, batch, request.rate);
  experiment.save_weights = false;
  const std::string strategy = fmt::format("data={},micro_batches={}", request.devices, micro_batches);
  UntilTarget until(*experiment.target, observer, interrupted);
  const RunResult row =
      train(experiment, model, data, make_plan(strategy, experiment, model, request.devices), until, until.stop);
  const EpochsMeasurement measurement = measurement_of(row, experiment, batch, micro_batches);
  if (measurement.point.epochs || row.status == RunStatus::ok || diverged(row)) return measurement;
  if (row.status == RunStatus::interrupted || row.status == RunStatus::timed_out) return std::nullopt;
  fail_run({fmt::format("batch {}", batch), row.reason, "", ""});
}

}  // namespace trireme
