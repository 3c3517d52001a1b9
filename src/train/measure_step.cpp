#include "train/measure_step.h"

#include <vector>

#include "base/median.h"
#include "base/seconds.h"
#include "metrics/result.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr size_t kWarmUp = 3, kLeast = 3;  // steps
constexpr double kManySteps = 1e6;         // the observer ends the run

/// Ends the run after enough steps.
class ForSeconds : public TrainObserver {
 public:
  explicit ForSeconds(double seconds) : seconds_(seconds) {}

  void on_step(const StepReport& report) override {
    last_ = steady_seconds();
    if (steps.size() == kWarmUp) begin_ = last_;
    steps.push_back(report.step_seconds);
  }
  bool has_enough() const override { return steps.size() >= kWarmUp + kLeast && last_ - begin_ >= seconds_; }

  std::vector<double> steps;

 private:
  const double seconds_;
  double begin_ = 0, last_ = 0;
};

}  // namespace

RunSpec as_trial(const RunSpec& experiment) {
  RunSpec trial = experiment;
  trial.length = trial.evaluate_every = {kManySteps, Length::Unit::steps};
  trial.save_weights = false;
  trial.checkpoint = {};
  trial.time_limit = 0;
  trial.target.reset();
  trial.early_stopping = {};
  return trial;
}

RunSpec as_threads(const RunSpec& experiment) {
  RunSpec threads = experiment;
  threads.processes = false;
  threads.process_machines.reset();
  return threads;
}

TrialStep measure_step(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                       double seconds, const std::atomic<bool>& interrupted,
                       const std::shared_ptr<ProcessRank>& process) {
  if (interrupted) return {.why_not = kStoppedByUser};
  ForSeconds observer(seconds);
  const RunResult row = train(as_trial(experiment), model, data, plan, observer, interrupted, nullptr, {}, process);
  if (interrupted) return {.why_not = kStoppedByUser};
  if (observer.steps.size() < kWarmUp + kLeast)
    return {.why_not = row.reason.empty() ? "it ended after too few steps" : row.reason};
  return {.seconds = median({observer.steps.begin() + kWarmUp, observer.steps.end()}),
          .core_seconds = row.core_seconds};
}

MeasureStep trial_of_steps(const RunSpec& experiment, const Model& model, const TaskData& data,
                           const std::atomic<bool>& interrupted) {
  return [&, plain = without_emulation(experiment)](const Plan& plan) {
    return measure_step(plain, model, data, plan, kTrialSeconds, interrupted);
  };
}

MeasureStep trial_of_finalists(const RunSpec& experiment, const Model& model, const TaskData& data,
                               const std::atomic<bool>& interrupted) {
  RunSpec steady = without_emulation(experiment);
  steady.links = experiment.links;
  return [&, steady = std::move(steady)](const Plan& plan) {
    return measure_step(steady, model, data, plan, kTrialSeconds, interrupted);
  };
}

}  // namespace trireme
