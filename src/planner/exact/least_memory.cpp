#include "planner/exact/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPrecision = 1e-3;  // of a bisection over limits, relative

PlanAnswer any_plan(const PlanRequest& request) { return find_fastest(request, kInfinity, true); }

/// Least factor in (lower, upper] for which `fits` finds a plan, to `precision`; `fits` is given factors and returns the least that would have
/// done, or nothing.
template <class Fits>
double bisect(double lower, double upper, double precision, Fits&& fits) {
  while (upper - lower > precision * upper) {
    const double middle = (lower + upper) / 2;
    if (const std::optional<double> enough = fits(middle)) upper = std::min(middle, *enough);
    else lower = middle;
  }
  return upper;
}

Cluster limited(const Cluster& cluster, double bytes) {
  Cluster result = cluster;
  for (Device& device : result.devices) {
    const auto limit = std::max<int64_t>(1, int64_t(std::ceil(bytes)));
    device.memory = device.memory > 0 ? std::min(device.memory, limit) : limit;
  }
  return result;
}

Cluster scaled(const Cluster& cluster, double factor) {
  Cluster result = cluster;
  for (Device& device : result.devices) device.memory = int64_t(std::ceil(double(device.memory) * factor));
  return result;
}

/// How many times its limit the fullest device holds, on the cluster of `request`.
double excess(const Prediction& prediction, const std::vector<double>& limits) {
  double most = 0;
  for (size_t s = 0; s < limits.size(); ++s)
    if (limits[s] > 0) most = std::max(most, prediction.memory[s].total() / limits[s]);
  return most;
}

/// What each stage's devices really have.
std::vector<double> real_limits(const PlanRequest& request, const Plan& plan) {
  const ModelFacts facts(request);
  return StepModel(facts).predict(plan).limits;
}

class Changes {
 public:
  Changes(const PlanRequest& request, const Deadline& deadline) : request_(request), deadline_(deadline) {}

  std::vector<std::string> that_help() {
    try_recompute();
    for (const OptimizerSharding sharding : {OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3})
      if (try_sharding(sharding)) break;
    try_smaller_batches();
    return std::move(found_);
  }

 private:
  bool note_if(const PlanRequest& changed, const std::string& what) {
    if (!any_plan(within(changed, deadline_)).best) return false;
    found_.push_back(what);
    return true;
  }

  void try_recompute() {
    if (request_.space.may_recompute) return;
    PlanRequest changed = request_;
    changed.space.may_recompute = true;
    note_if(changed, "allow plans that recompute activations");
  }

  bool try_sharding(OptimizerSharding sharding) {
    const auto& allowed = request_.space.shardings;
    if (std::find(allowed.begin(), allowed.end(), sharding) != allowed.end()) return false;
    PlanRequest changed = request_;
    changed.space.shardings.push_back(sharding);
    return note_if(changed, fmt::format("allow optimizer sharding {}", name_of(sharding)));
  }

  void try_smaller_batches() {
    for (int64_t batch = request_.batch / 2; batch >= 1; batch /= 2) {
      PlanRequest changed = request_;
      changed.batch = batch;
      changed.known.clear();  // they are for the whole batch
      auto& counts = changed.space.micro_batches;
      const bool some = counts.empty();
      std::erase_if(counts, [&](int m) { return m > batch; });
      if (!some && counts.empty()) return;
      if (note_if(changed, fmt::format("a batch of {} in place of {}", batch, request_.batch))) return;
    }
  }

  const PlanRequest& request_;
  const Deadline& deadline_;
  std::vector<std::string> found_;
};

}  // namespace

PlanRequest with_cluster(const PlanRequest& r, const Cluster& cluster) {
  return {r.model, cluster,   r.costs, r.batch, r.bytes_per_value, r.optimizer_tensors,
          r.objective, r.space, r.known, r.time_limit, r.tolerance, r.layer_classes};
}

PlanRequest within(const PlanRequest& request, const Deadline& deadline) {
  PlanRequest result = request;
  result.time_limit = deadline.seconds_left();
  return result;
}

PlanAnswer find_smallest(const PlanRequest& request) {
  const Deadline deadline(request.time_limit);
  PlanAnswer first = any_plan(request);
  if (!first.best) return first;
  Plan smallest = first.best->plan;
  double too_little = 0;  // proven
  const auto fits = [&](double bytes) -> std::optional<double> {
    const Cluster cluster = limited(request.cluster, bytes);
    const PlanAnswer answer = any_plan(within(with_cluster(request, cluster), deadline));
    if (!answer.best) {
      if (answer.lower_bound == kInfinity) too_little = std::max(too_little, bytes);
      return {};
    }
    smallest = answer.best->plan;
    return answer.best->prediction.fullest();
  };
  const double least = bisect(0, first.best->prediction.fullest(), std::max(kPrecision, request.tolerance), fits);
  const Cluster cluster = limited(request.cluster, least);
  PlanRequest fastest = within(with_cluster(request, cluster), deadline);
  fastest.known.push_back(smallest);
  PlanAnswer answer = find_fastest(fastest);
  check_internal(answer.best.has_value(), "a plan that was found fits the limit that it gave");
  for (RatedPlan& plan : answer.runners_up) plan.objective = plan.prediction.fullest();
  answer.best->objective = answer.best->prediction.fullest();
  answer.lower_bound = std::min(too_little, answer.best->objective);
  answer.proof = fmt::format("at most {:.2g} % from the least memory under the step model{}", 100 * answer.gap(),
                             deadline.passed() ? ": the time limit ended the search" : "");
  return answer;
}

Shortfall explain_shortfall(const PlanRequest& request) {
  const Deadline deadline(request.time_limit);
  Cluster free = request.cluster;
  for (Device& device : free.devices) device.memory = 0;
  const PlanAnswer unlimited = any_plan(within(with_cluster(request, free), Deadline(std::nullopt)));  // the first that there is: quick
  Shortfall shortfall;
  if (!unlimited.best) {
    shortfall.changes.emplace_back("a larger batch or fewer devices per stage: no division leaves every worker a sample");
    return shortfall;
  }
  shortfall.nearest = *unlimited.best;
  const auto times_over = [&](const RatedPlan& plan) { return excess(plan.prediction, real_limits(request, plan.plan)); };
  const auto fits = [&](double factor) -> std::optional<double> {
    const Cluster cluster = scaled(request.cluster, factor);
    PlanAnswer answer = any_plan(within(with_cluster(request, cluster), deadline));
    if (!answer.best) return {};
    shortfall.nearest = std::move(*answer.best);
    return times_over(shortfall.nearest);
  };
  const double factor = bisect(1, times_over(shortfall.nearest), kPrecision, fits);
  Prediction& prediction = shortfall.nearest.prediction;
  prediction.limits = real_limits(request, shortfall.nearest.plan);
  for (size_t s = 0; s < prediction.limits.size(); ++s) {
    const double missing = prediction.memory[s].total() - prediction.limits[s];
    if (prediction.limits[s] == 0 || missing <= shortfall.missing) continue;
    shortfall.missing = missing;
    shortfall.stage = int(s);
  }
  shortfall.changes = Changes(request, deadline).that_help();
  shortfall.changes.push_back(fmt::format("devices with {:.1f} % more memory", 100 * (factor - 1)));
  return shortfall;
}

}  // namespace trireme
