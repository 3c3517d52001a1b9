#include "train/result/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/median.h"
#include "profile/profile.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// True if the run measured steps and epochs.
bool is_timed(const RunResult& run) {
  return run.status == RunStatus::ok && !run.measured_steps.empty() && run.epoch_seconds && run.samples_per_second;
}

/// Sets the times of `row`, one of the runs, to those of all.
void set_times(const std::vector<const RunResult*>& timed, const StepSeconds& together, RunResult& row) {
  std::vector<double> epochs;
  for (const RunResult* run : timed) {
    row.repeats.push_back({*run->step_seconds, *run->epoch_seconds});
    epochs.push_back(*run->epoch_seconds);
  }
  const double epoch = row.replicas                   ? median(epochs)
                       : row.step_seconds->median > 0 ? *row.epoch_seconds * together.median / row.step_seconds->median
                                                      : *row.epoch_seconds;
  const double before = *row.samples_per_second;
  if (epoch > 0) row.samples_per_second = *row.samples_per_second * *row.epoch_seconds / epoch;
  row.epoch_seconds = epoch;
  const std::optional<double> mean = row.step_seconds->mean;
  row.step_seconds = together;
  if (row.replicas && mean) row.step_seconds->mean = *mean * before / *row.samples_per_second;
}

/// The median over the runs; nullopt where one of them does not know it.
std::optional<double> median_of(std::optional<double> RunResult::*speed, const std::vector<const RunResult*>& timed) {
  std::vector<double> all;
  all.reserve(timed.size());
  for (const RunResult* run : timed) {
    if (!(run->*speed)) return std::nullopt;
    all.push_back(*(run->*speed));
  }
  return median(all);
}

/// The warnings of all runs that count, each once.
std::vector<std::string> joined_warnings(const std::vector<RunResult>& runs) {
  std::vector<std::string> all;
  for (const RunResult& run : runs) {
    if (run.status != RunStatus::ok) continue;
    for (const std::string& warning : run.warnings)
      if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
  }
  return all;
}

}  // namespace

StepSeconds step_seconds_of(const std::vector<double>& steps) {
  const Spread spread = spread_of(steps);
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / double(steps.size());
  return {.median = spread.median, .p10 = spread.p10, .p90 = spread.p90, .mean = mean};
}

RunResult merged_repeats(const std::vector<RunResult>& runs) {
  check_internal(!runs.empty(), "a row has a run");
  if (runs.size() == 1) return runs.front();
  std::vector<const RunResult*> timed;
  std::vector<double> steps;
  for (const RunResult& run : runs) {
    const bool is_stopped = run.status == RunStatus::interrupted && !timed.empty();
    if (run.status != RunStatus::ok && !is_stopped) {
      RunResult row = run;
      if (&run != &runs.front()) row.reason = fmt::format("run {}: {}", &run - runs.data() + 1, run.reason);
      return row;
    }
    if (!is_timed(run)) continue;
    timed.push_back(&run);
    steps.insert(steps.end(), run.measured_steps.begin(), run.measured_steps.end());
  }
  if (timed.empty()) {  // too short to be measured
    RunResult row = runs.front();
    row.warnings = joined_warnings(runs);
    return row;
  }
  const StepSeconds together = step_seconds_of(steps);
  const auto distance = [&](const RunResult* run) { return std::abs(run->step_seconds->median - together.median); };
  RunResult row = **std::min_element(timed.begin(), timed.end(),
                                     [&](const RunResult* a, const RunResult* b) { return distance(a) < distance(b); });
  set_times(timed, together, row);
  row.core_seconds = median_of(&RunResult::core_seconds, timed);
  row.memory_speed = median_of(&RunResult::memory_speed, timed);
  row.warnings = joined_warnings(runs);
  row.measured_steps = std::move(steps);
  return row;
}

}  // namespace trireme
