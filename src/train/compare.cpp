#include "train/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/seconds.h"

namespace trireme {
namespace {

std::optional<EvaluationPoint> last_within(const RunResult& row, const std::function<bool(const EvaluationPoint&)>& within) {
  std::optional<EvaluationPoint> found;
  for (const EvaluationPoint& point : row.evaluations)
    if (within(point)) found = point;
  return found;
}

}  // namespace

void add_prices(ExperimentResult& result) {
  if (!result.price_per_hour) return;
  const double per_second = *result.price_per_hour / kSecondsPerHour;
  for (RunResult& row : result.rows) {
    if (row.epoch_seconds) row.price_per_epoch = *row.epoch_seconds * per_second;
    if (row.to_target) row.price_to_target = row.to_target->seconds * per_second;
  }
}

void complete_comparison(ExperimentResult& result) {
  add_prices(result);
  std::optional<double> single;
  int64_t samples = std::numeric_limits<int64_t>::max();
  double seconds = std::numeric_limits<double>::infinity();
  for (const RunResult& row : result.rows) {
    // rows that a time limit ended count too: otherwise "equal" would not be equal where nothing reached its end
    const bool ended_fairly = row.status == RunStatus::ok || row.status == RunStatus::timed_out;
    if (ended_fairly && row.devices == 1 && row.strategy == "single") single = row.samples_per_second;
    if (!ended_fairly || row.evaluations.empty()) continue;
    samples = std::min(samples, row.evaluations.back().samples);
    seconds = std::min(seconds, row.evaluations.back().seconds);
  }
  for (RunResult& row : result.rows) {
    if (single && row.samples_per_second) row.scaling_efficiency = *row.samples_per_second / (row.devices * *single);
    row.test_at_equal_samples = last_within(row, [&](const EvaluationPoint& p) { return p.samples <= samples; });
    row.test_at_equal_time = last_within(row, [&](const EvaluationPoint& p) { return p.seconds <= seconds; });
  }
}

}  // namespace trireme
