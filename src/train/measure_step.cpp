#include "train/measure_step.h"

#include <vector>

#include "base/median.h"
#include "base/seconds.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr size_t kWarmUp = 3, kLeast = 3;  // steps
constexpr double kManySteps = 1e6;         // the observer ends the run
constexpr double kTrialSeconds = 1;

/// Ends the run after enough steps.
class ForSeconds : public TrainObserver {
 public:
  ForSeconds(double seconds, const std::atomic<bool>& interrupted) : seconds_(seconds), interrupted_(interrupted) {}

  void on_step(const StepReport& report) override {
    const double now = steady_seconds();
    if (steps.size() == kWarmUp) begin_ = now;
    steps.push_back(report.step_seconds);
    if (interrupted_ || (steps.size() >= kWarmUp + kLeast && now - begin_ >= seconds_)) stop = true;
  }

  std::atomic<bool> stop{false};
  std::vector<double> steps;

 private:
  const double seconds_;
  const std::atomic<bool>& interrupted_;
  double begin_ = 0;
};

}  // namespace

std::optional<TrialStep> measure_step(const RunSpec& experiment, const Model& model, const TaskData& data,
                                      const Plan& plan, double seconds, const std::atomic<bool>& interrupted) {
  if (interrupted) return std::nullopt;
  RunSpec trial = experiment;
  trial.length = trial.evaluate_every = {kManySteps, Length::Unit::steps};
  trial.save_weights = false;
  trial.checkpoint = {};
  trial.time_limit = 0;
  trial.target.reset();
  ForSeconds observer(seconds, interrupted);
  const RunResult row = train(trial, model, data, plan, observer, observer.stop);
  if (interrupted || observer.steps.size() < kWarmUp + kLeast) return std::nullopt;
  return TrialStep{median({observer.steps.begin() + kWarmUp, observer.steps.end()}), row.core_seconds};
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
