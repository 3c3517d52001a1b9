#include "forecast/trial_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/devices/at_core_speed.h"
#include "base/median.h"
#include "base/text.h"
#include "base/units.h"
#include "forecast/predict.h"
#include "plan/strategies.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Plans are tried in turn, in several rounds, because cores may be unequal and other programs come and go.
constexpr int kRounds = 3;
constexpr int kMoreRounds = 3;                                            // for trials that scatter
constexpr double kScatter = 1.2;                                          // longest over shortest
constexpr double kLongestOfThree = 0.5, kLongestOfTwo = 1, kLongest = 4;  // predicted seconds of a step
constexpr int kFits = 8;
constexpr double kFitted = 1e-3;                          // of the measured seconds
constexpr double kLeastFactor = 0.25, kMostFactor = 8.0;  // beyond these something else is wrong

std::string name_of(const Plan& plan) {
  return plan.devices == 1 ? "one device" : fmt::format("{} on {} devices", plan.name, plan.devices);
}

/// The shortest first, at the speed of the cores as in median_seconds().
std::vector<double> sorted_seconds(const std::vector<TrialStep>& measured, double core_seconds) {
  std::vector<double> all;
  all.reserve(measured.size());
  for (const TrialStep& step : measured)
    all.push_back(core_seconds > 0 && step.core_seconds ? at_core_speed(step.seconds, *step.core_seconds, core_seconds)
                                                        : step.seconds);
  std::sort(all.begin(), all.end());
  return all;
}

/// "0.82 s to 1.31 s (one device)".
std::string range_of(const std::vector<double>& sorted, const Plan& plan) {
  return fmt::format("{} to {} ({})", format_seconds(sorted.front()), format_seconds(sorted.back()), name_of(plan));
}

}  // namespace

int trial_rounds(double predicted) {
  return predicted < kLongestOfThree ? kRounds : predicted < kLongestOfTwo ? 2 : predicted <= kLongest ? 1 : 0;
}

double median_seconds(const std::vector<TrialStep>& measured, double core_seconds) {
  return median(sorted_seconds(measured, core_seconds));
}

RunSpec without_emulation(const RunSpec& experiment) {
  RunSpec plain = experiment;
  plain.links.reset();
  plain.worker_changes.clear();
  plain.memory_changes.clear();
  return plain;
}

TrialSteps::TrialSteps(const RunSpec& experiment, const Model& model, const ProfiledCosts& layers, double loading,
                       const std::vector<int>& devices)
    : experiment_(without_emulation(experiment)), model_(model), layers_(layers) {
  const Profile profile = layers.profile();
  core_seconds_ = profile.device.core_seconds;
  const int most = devices.empty() ? 1 : *std::max_element(devices.begin(), devices.end());
  int within = most;
  while (within > 1 && is_crowded(experiment_, profile.machine, within)) --within;
  add(1, &StepFactors::seconds, profile, loading);
  if (within > 1) add(within, &StepFactors::crowding, profile, loading);
  if (most > within) add(most, &StepFactors::sharing, profile, loading);
}

void TrialSteps::add(int workers, double StepFactors::*factor, const Profile& profile, double loading) {
  CostSource source = measured_source(experiment_, model_, profile, workers);
  source.layers = std::shared_ptr<const LayerCosts>(std::shared_ptr<void>(), &layers_);  // not owned
  source.loading = loading;
  try {
    Plan plan = make_plan(usual_strategy(), experiment_, model_, source);
    trials_.push_back({.plan = std::move(plan), .source = std::move(source), .factor = factor});
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;  // fewer samples than workers, or a layer that has no such split
  }
}

std::optional<double> TrialSteps::predicted(Trial& trial, const StepFactors& factors) {
  layers_.set_factors(factors);
  if (trial.factor == &StepFactors::sharing) trial.source.sharing = factors.sharing;
  const RunResult row = trireme::predict(experiment_, model_, trial.plan, trial.source, without_pictures());
  if (row.status != RunStatus::ok || !row.predicted) return std::nullopt;
  return row.predicted->step_seconds;
}

void TrialSteps::predict() {
  for (Trial& trial : trials_) predicted(trial, {});
}

void TrialSteps::refuse_long(Trial& trial) {
  trial.before = predicted(trial, {}).value_or(0);
  if (trial.before == 0) trial.why_not = "needs more memory than there is";
  else if (trial_rounds(trial.before) == 0)
    trial.why_not = fmt::format("takes {} per step", format_seconds(trial.before));
}

bool TrialSteps::scatters(const Trial& trial) const {
  const std::vector<double> all = sorted_seconds(trial.measured, core_seconds_);
  return !all.empty() && all.back() > kScatter * all.front();
}

void TrialSteps::measure_once(Trial& trial, const MeasureStep& measure_step) {
  if (!trial.why_not.empty()) return;
  TrialStep step = measure_step(trial.plan);
  if (step.ran()) trial.measured.push_back(std::move(step));
  else trial.why_not = fmt::format("could not run ({})", step.why_not);
}

/// Finds the factor with which the prediction equals the measured seconds. Because of transfers, a step need not grow
/// in proportion to the factor. So the first guess is proportional, and each further one follows the line through the
/// last two predictions (secant method).
void TrialSteps::fit(Trial& trial, StepFactors& factors) {
  const double measured = seconds(trial);
  double& factor = factors.*trial.factor;
  double last_factor = 0, last_seconds = 0;
  for (int i = 0; i < kFits; ++i) {
    const double now = predicted(trial, factors).value_or(measured);
    if (std::abs(now - measured) <= kFitted * measured) return;
    const double slope = i == 0 ? 0 : (now - last_seconds) / (factor - last_factor);
    last_factor = factor;
    last_seconds = now;
    factor =
        std::clamp(slope > 0 ? factor + (measured - now) / slope : factor * measured / now, kLeastFactor, kMostFactor);
    if (factor == last_factor) return;  // at a bound
  }
  predicted(trial, factors);  // the layers keep what was fitted
}

TrialSteps::Found TrialSteps::measure(const MeasureStep& measure_step) {
  for (Trial& trial : trials_) refuse_long(trial);
  for (int round = 0; round < kRounds; ++round)
    for (Trial& trial : trials_)
      if (round < trial_rounds(trial.before)) measure_once(trial, measure_step);
  for (int round = 0; round < kMoreRounds; ++round)
    for (Trial& trial : trials_)
      if (scatters(trial)) measure_once(trial, measure_step);
  StepFactors factors;
  std::vector<std::string> tried, untried, scattered;
  for (Trial& trial : trials_) {
    if (trial.why_not.empty()) {
      fit(trial, factors);
      tried.push_back(fmt::format("{:.2f} ({})", seconds(trial) / trial.before, name_of(trial.plan)));
      if (scatters(trial)) scattered.push_back(range_of(sorted_seconds(trial.measured, core_seconds_), trial.plan));
    } else {
      untried.push_back(fmt::format("{} {}", name_of(trial.plan), trial.why_not));
    }
  }
  std::vector<std::string> parts;
  if (!tried.empty())
    parts.push_back(
        fmt::format("trial steps took {} times as long as their layers; predictions count it", join(tried)));
  if (!scattered.empty())
    parts.push_back(
        fmt::format("trial steps took {}, so other programs used this machine meanwhile: predictions may be "
                    "wrong by as much",
                    join(scattered)));
  if (!untried.empty()) parts.push_back(fmt::format("not tried: {}", join(untried)));
  return {tried.empty() ? std::nullopt : std::optional(factors), join(parts, "; ")};
}

}  // namespace trireme
