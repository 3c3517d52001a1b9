#include "planner/exact/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/infinity.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kPrecision = 1e-3;  // relative, of a bisection over limits

PlanAnswer any_plan(const PlanRequest& request) { return find_fastest(request, kInfinity, true); }

/// The least factor in (lower, upper] for which `fits` finds a plan, to `precision`. `fits(factor)` returns the least
/// factor that the plan found needs, or nothing.
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

/// The largest ratio of memory to limit over the devices.
double excess(const Prediction& prediction) {
  double most = 0;
  for (size_t s = 0; s < prediction.limits.size(); ++s)
    if (prediction.limits[s] > 0) most = std::max(most, prediction.memory[s].total() / prediction.limits[s]);
  return most;
}

/// Runs one request after another with a time limit each, so that a request that cannot be proven infeasible does not
/// use all the time.
class Probes {
 public:
  explicit Probes(std::optional<double> seconds)
      : deadline_(seconds), each_(seconds ? std::optional(*seconds / kAtOnce) : std::nullopt) {}

  PlanAnswer ask(const PlanRequest& request) const {
    PlanRequest limited = within(request, deadline_);
    if (each_) limited.time_limit = std::min(*limited.time_limit, *each_);
    return any_plan(limited);
  }

 private:
  static constexpr double kAtOnce = 6;
  Deadline deadline_;
  std::optional<double> each_;
};

/// Finds the plan with the least shortfall, starting from the known plans.
class Shortage {
 public:
  explicit Shortage(const PlanRequest& request)
      : request_(request), facts_(request), formula_(facts_), probes_(half(request.time_limit)) {}

  /// nullopt: there is no plan, whatever the memory.
  std::optional<Shortfall> run() {
    for (const Plan& plan : request_.known)
      if (!formula_.unknown(plan)) consider({plan, formula_.predict(plan), 0});
    Cluster free = request_.cluster;
    for (Device& device : free.devices) device.memory = 0;
    const PlanAnswer unlimited =
        any_plan(within(with_cluster(request_, free), Deadline(std::nullopt)));  // fast: stops at the first plan
    if (unlimited.best) consider(*unlimited.best);
    if (!nearest_) return std::nullopt;
    factor_ = bisect(1, factor_, kPrecision, [this](double factor) { return fits(factor); });
    return found();
  }

  double factor() const { return factor_; }
  static std::optional<double> half(std::optional<double> seconds) {
    return seconds ? std::optional(*seconds / 2) : std::nullopt;
  }

 private:
  /// `plan` may have been rated on a cluster with other limits.
  void consider(RatedPlan plan) {
    plan.prediction = formula_.predict(plan.plan);
    const double factor = excess(plan.prediction);
    if (nearest_ && factor >= factor_) return;
    nearest_ = std::move(plan);
    factor_ = factor;
  }

  std::optional<double> fits(double factor) {
    const Cluster cluster = scaled(request_.cluster, factor);
    PlanAnswer answer = probes_.ask(with_cluster(request_, cluster));
    if (!answer.best) {
      if (answer.lower_bound == kInfinity) ruled_out_ = std::max(ruled_out_, factor);
      return {};
    }
    consider(std::move(*answer.best));
    return factor_;
  }

  Shortfall found() const {
    Shortfall shortfall{.nearest = *nearest_, .is_least = factor_ <= ruled_out_ * (1 + 2 * kPrecision)};
    const Prediction& prediction = shortfall.nearest.prediction;
    for (size_t s = 0; s < prediction.limits.size(); ++s) {
      const double missing = prediction.memory[s].total() - prediction.limits[s];
      if (prediction.limits[s] == 0 || missing <= shortfall.missing) continue;
      shortfall.missing = missing;
      shortfall.stage = int(s);
    }
    return shortfall;
  }

  const PlanRequest& request_;
  const ModelFacts facts_;
  const StepModel formula_;
  const Probes probes_;
  std::optional<RatedPlan> nearest_;
  double factor_ = 0;
  double ruled_out_ = 1;  ///< initially the request's own memory, which is known not to suffice
};

/// The same plan for a smaller batch: with micro-batches of the same size or, if there are fewer samples, one
/// micro-batch. nullopt if a worker would get no sample.
std::optional<Plan> for_batch(Plan plan, const PlanRequest& request, int64_t batch) {
  if (find_schedule(plan.schedule, plan.name).chunked) return std::nullopt;
  plan.micro_batches = int(std::max<int64_t>(1, plan.micro_batches * batch / request.batch));
  try {
    validate(plan, request.model, batch, "a smaller batch");
    return plan;
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;
    return std::nullopt;
  }
}

bool fits_with_recompute(const PlanRequest& request, const Probes& probes) {
  PlanRequest changed = request;
  changed.space.may_recompute = true;
  return probes.ask(changed).best.has_value();
}

/// The largest of a half, a quarter, ... of the batch for which a plan is found.
std::optional<int64_t> batch_that_fits(const PlanRequest& request, const Plan& nearest, const Probes& probes) {
  for (int64_t batch = request.batch / 2; batch >= 1; batch /= 2) {
    PlanRequest changed = request;
    changed.batch = batch;
    changed.known.clear();
    for (const Plan& plan : request.known)
      if (std::optional<Plan> smaller = for_batch(plan, request, batch)) changed.known.push_back(std::move(*smaller));
    if (std::optional<Plan> smaller = for_batch(nearest, request, batch)) changed.known.push_back(std::move(*smaller));
    auto& counts = changed.space.micro_batches;
    const bool all = counts.empty();
    std::erase_if(counts, [&](int m) { return m > batch; });
    if (!all && counts.empty()) return std::nullopt;
    if (probes.ask(changed).best) return batch;
  }
  return std::nullopt;
}

}  // namespace

PlanRequest with_cluster(const PlanRequest& r, const Cluster& cluster) {
  return {r.model,     cluster, r.costs, r.batch,      r.bytes_per_value, r.optimizer_tensors, r.shares_memory,
          r.objective, r.space, r.known, r.time_limit, r.tolerance,       r.layer_classes};
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
  double too_little = 0;  // proven to be too little
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
  check_internal(answer.best.has_value(), "a plan fits the limit that was derived from it");
  for (RatedPlan& plan : answer.runners_up) plan.objective = plan.prediction.fullest();
  answer.best->objective = answer.best->prediction.fullest();
  answer.lower_bound = std::min(too_little, answer.best->objective);
  answer.out_of_time = deadline.passed() && answer.gap() > std::max(kPrecision, request.tolerance);
  answer.proof = fmt::format("at most {:.2g} % from the least memory under the step model{}", 100 * answer.gap(),
                             deadline.passed() ? ": the time limit ended the search" : "");
  return answer;
}

Shortfall explain_shortfall(const PlanRequest& request) {
  Shortage shortage(request);
  std::optional<Shortfall> found = shortage.run();
  if (!found)
    return {.changes = {"a larger batch, or fewer devices per stage: each division leaves a worker without a sample"}};
  const Probes probes(Shortage::half(request.time_limit));
  if (!request.space.may_recompute && fits_with_recompute(request, probes))
    found->changes.emplace_back("plans that recompute activations");
  if (const auto batch = batch_that_fits(request, found->nearest.plan, probes))
    found->changes.push_back(
        fmt::format("a batch of {} instead of {} (--set batch={})", *batch, request.batch, *batch));
  constexpr double kDouble = 2;
  found->changes.push_back(shortage.factor() < kDouble
                               ? fmt::format("devices with {:.1f} % more memory", 100 * (shortage.factor() - 1))
                               : fmt::format("devices with {:.3g} times the memory", shortage.factor()));
  return std::move(*found);
}

}  // namespace trireme
