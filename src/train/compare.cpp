#include "train/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "base/seconds.h"
#include "comm/backend_list.h"
#include "plan/strategies.h"

namespace trireme {
namespace {

constexpr const char* kUnequalWork =
    "rows ended after different numbers of samples, because one or more ended early: their last results and whole "
    "times "
    "are not of equal work; times per step are, and so are results at equal samples";

std::optional<EvaluationPoint> last_within(const RunResult& row,
                                           const std::function<bool(const EvaluationPoint&)>& within) {
  std::optional<EvaluationPoint> found;
  for (const EvaluationPoint& point : row.evaluations)
    if (within(point)) found = point;
  return found;
}

/// True for rows whose results can be set against each other. Rows that a time limit ended count too: otherwise "equal"
/// would mean nothing if no row reached its end.
bool ended_fairly(const RunResult& row) { return row.status == RunStatus::ok || row.status == RunStatus::timed_out; }

/// Says of rows that ended early that others have trained on more or fewer samples.
void note_unequal_work(ExperimentResult& result) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  for (const RunResult& row : result.rows) {
    if (!ended_fairly(row) || row.evaluations.empty()) continue;
    least = std::min(least, row.evaluations.back().samples);
    most = std::max(most, row.evaluations.back().samples);
  }
  for (RunResult& row : result.rows) {
    std::erase(row.warnings, kUnequalWork);  // of an earlier call, with fewer rows
    if (least < most && !row.ended_early.empty()) row.warnings.emplace_back(kUnequalWork);
  }
}

}  // namespace

std::string clock_of(const RunResult& row) {
  if (row.backend == kVirtualBackend.name) return "modelled";
  return row.replicas ? row.replicas->clock : ReplicaReport().clock;
}

bool is_in_real_time(const RunResult& row) { return clock_of(row) == ReplicaReport().clock; }

void add_prices(ExperimentResult& result) {
  if (!result.price_per_hour) return;
  const double per_second = *result.price_per_hour / kSecondsPerHour;
  for (RunResult& row : result.rows) {
    if (!is_in_real_time(row)) continue;  // modelled time has no price
    if (row.epoch_seconds) row.price_per_epoch = *row.epoch_seconds * per_second;
    if (row.to_target) row.price_to_target = row.to_target->seconds * per_second;
  }
}

const RunResult* scaling_base(const ExperimentResult& result, const std::string& clock) {
  const RunResult *single = nullptr, *base = nullptr;
  for (const RunResult& row : result.rows) {
    if (!ended_fairly(row) || !row.samples_per_second || clock_of(row) != clock) continue;
    if (row.devices == 1 && is_single(row.strategy)) single = &row;
    if (!row.batch) continue;
    const bool is_better = !base || row.devices < base->devices ||
                           (row.devices == base->devices && *row.samples_per_second > *base->samples_per_second);
    if (is_better) base = &row;
  }
  return single ? single : base;
}

void complete_comparison(ExperimentResult& result) {
  add_prices(result);
  note_unequal_work(result);
  int64_t samples = std::numeric_limits<int64_t>::max();
  std::map<std::string, double> seconds;  // by clock
  for (const RunResult& row : result.rows) {
    if (!ended_fairly(row) || row.evaluations.empty()) continue;
    samples = std::min(samples, row.evaluations.back().samples);
    double& shortest = seconds.try_emplace(clock_of(row), std::numeric_limits<double>::infinity()).first->second;
    shortest = std::min(shortest, row.evaluations.back().seconds);
  }
  for (RunResult& row : result.rows) {
    const RunResult* base = scaling_base(result, clock_of(row));
    if (base && row.samples_per_second)
      row.scaling_efficiency = *row.samples_per_second * base->devices / (row.devices * *base->samples_per_second);
    row.test_at_equal_samples = last_within(row, [&](const EvaluationPoint& p) { return p.samples <= samples; });
    const auto shortest = seconds.find(clock_of(row));
    row.test_at_equal_time = last_within(
        row, [&](const EvaluationPoint& p) { return shortest != seconds.end() && p.seconds <= shortest->second; });
  }
}

}  // namespace trireme
