#include "forecast/best_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "forecast/final_trials.h"
#include "forecast/plan_search.h"
#include "forecast/predict_program.h"
#include "plan/cluster_file.h"
#include "plan/strategy.h"
#include "planner/asa.h"
#include "planner/placement/placed_plans.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Sort key of a result; the least is best. First: whether it has a plan, and one that fits. Then: the value of the
/// objective.
std::tuple<int, double, double> rank_of(const BestPlan& found, Objective objective) {
  if (found.finalists.empty()) return {2, 0, 0};
  const Finalist& front = found.finalists.front();
  return {front.fits_simulated ? 0 : 1, value_of(front, objective), front.simulated};
}

/// Returns the finalist whose tightest device needs the least share of its memory.
const Finalist& nearest_of(const std::vector<Finalist>& finalists) {
  return *std::min_element(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) {
    return a.tightest.share() < b.tightest.share();
  });
}

/// Combines the searches over several orders of the devices.
BestPlan best_of(std::vector<BestPlan> found, size_t orders, Objective objective) {
  const auto best = std::min_element(found.begin(), found.end(), [&](const BestPlan& a, const BestPlan& b) {
    return rank_of(a, objective) < rank_of(b, objective);
  });
  BestPlan result = *best;
  result.orders = orders;
  if (orders == 1) return result;
  for (auto other = found.begin(); other != found.end(); ++other) {
    result.answer.lower_bound = std::min(result.answer.lower_bound, other->answer.lower_bound);
    if (other == best || other->finalists.empty()) continue;
    const Finalist& front = other->finalists.front();
    result.finalists.push_back(front.fits_simulated ? front : nearest_of(other->finalists));
  }
  rank(result.finalists, objective);
  return result;
}

/// "devices with 12.4 % more memory", "devices with 3.17 times the memory": rounded up, so that it is enough.
std::string more_memory(double factor) {
  constexpr double kDouble = 2, kTenths = 10, kHundredths = 100;
  if (factor < kDouble)
    return fmt::format("devices with {:.1f} % more memory", std::ceil(kTenths * 100 * (factor - 1)) / kTenths);
  return fmt::format("devices with {:.2f} times the memory", std::ceil(kHundredths * factor) / kHundredths);
}

/// Returns the order in which a plan was found: one that begins with the plan's devices.
const std::vector<int>& order_of(const Plan& plan, const BestPlan& best, const DeviceChoice& devices) {
  const std::vector<int> used = plan.cluster_devices.empty() ? device_numbers(0, plan.devices) : plan.cluster_devices;
  const auto begins = [&](const std::vector<int>& order) {
    return order.size() >= used.size() && std::equal(used.begin(), used.end(), order.begin());
  };
  if (begins(best.order)) return best.order;
  const auto found = std::find_if(devices.orders.begin(), devices.orders.end(), begins);
  return found == devices.orders.end() ? best.order : *found;
}

/// Returns the largest of a half, a quarter, ... of the batch with which a plan fits on devices in this order.
std::optional<int64_t> batch_that_fits(const std::vector<int>& order, const RunSpec& experiment, const Model& model,
                                       const DeviceChoice& devices, const BestPlanOptions& options) {
  const Deadline deadline(options.limit);
  RunSpec smaller = experiment;
  while ((smaller.batch /= 2) >= 1 && !deadline.passed()) try {
      const BestPlan least =
          find_in_order(smaller, model, order, devices.source_of,
                        {.objective = Objective::memory, .limit = deadline.seconds_left(), .tolerance = 0});
      if (!least.finalists.empty() && least.finalists.front().fits_simulated) return smaller.batch;
    } catch (const Error& error) {
      if (error.blame() != Blame::user) throw;  // a smaller batch may suit no plan
    }
  return std::nullopt;
}

}  // namespace

BestPlan find_best_plan(const RunSpec& experiment, const Model& model, const DeviceChoice& devices,
                        const BestPlanOptions& options) {
  const Deadline deadline(options.limit);
  std::vector<BestPlan> found;
  std::optional<Error> refused;
  for (size_t i = 0; i < devices.orders.size(); ++i) {
    BestPlanOptions part = options;
    if (options.limit) part.limit = *deadline.seconds_left() / double(devices.orders.size() - i);
    try {
      found.push_back(find_in_order(experiment, model, devices.orders[i], devices.source_of, part));
    } catch (const Error& error) {
      if (error.blame() != Blame::user || devices.orders.size() == 1) throw;
      // a class of devices may have no speed at this precision, or no price: another order may leave it out
      if (!refused) refused = error;
    }
  }
  if (found.empty()) throw *refused;
  return best_of(std::move(found), devices.orders.size(), options.objective);
}

void check_found(const std::string& where, const BestPlan& best) {
  if (best.answer.best) return;
  if (best.answer.shortfall)
    fail_user({where, "there is no plan", "even with unlimited memory", join(best.answer.shortfall->changes, "; or ")});
  fail_user(
      {where, "no plan was found in time", "", "give the search more time, use fewer devices, or name a strategy"});
}

void check_fits(const std::string& where, const BestPlan& best, const RunSpec& experiment, const Model& model,
                const DeviceChoice& devices, const BestPlanOptions& options) {
  if (best.finalists.front().fits_simulated) return;
  const Finalist& nearest = nearest_of(best.finalists);
  const MemoryNeed &tightest = nearest.tightest, &lacks_most = nearest.lacks_most;
  const std::vector<int>& order = order_of(nearest.rated.plan, best, devices);
  std::vector<std::string> changes;
  if (const std::optional<int64_t> batch = batch_that_fits(order, experiment, model, devices, options))
    changes.push_back(fmt::format("a batch of {} instead of {} (--set batch={})", *batch, experiment.batch, *batch));
  changes.push_back(more_memory(tightest.share()));
  std::string other;
  if (lacks_most.device != tightest.device)
    other = fmt::format("; device {} lacks {}, a smaller share of what it has", lacks_most.device,
                        format_bytes(lacks_most.missing()));
  const char* less = best.answer.out_of_time ? "; the time limit ended the search, so less may be enough" : "";
  fail_user({where, "no plan fits into the devices' memory",
             fmt::format("the nearest, {}, lacks {}: {}{}{}", nearest.rated.plan.in_short(model),
                         format_bytes(tightest.missing()), nearest.misfit, other, less),
             "what would fit: " + join(changes, "; or ")});
}

BestPlan search_exact(const RunSpec& experiment, const Model& model, const DeviceChoice& devices) {
  const std::string where = fmt::format("strategy {}", kExact.name);
  BestPlan best = find_best_plan(experiment, model, devices);
  check_found(where, best);
  check_fits(where, best, experiment, model, devices);
  return best;
}

Plan exact_plan(const BestPlan& best, const RunSpec& experiment, const Model& model, int devices, FinalTrials* trials) {
  const int wanted = experiment.processes ? devices : 0;
  const Finalist* chosen = trials ? trials->choose(best.finalists, model, wanted) : nullptr;
  if (!chosen) chosen = to_run(best.finalists, wanted);
  if (!chosen || !chosen->fits_simulated)
    fail_user({fmt::format("strategy {}", kExact.name),
               fmt::format("found no plan that uses all {} processes and fits into their memory", devices),
               fmt::format("the fastest, {}, has {}", best.finalists.front().rated.plan.in_short(model),
                           best.finalists.front().rated.plan.devices),
               "start that many processes (for one, use threads), or name a plan: --plan " + usual_strategy()});
  Plan plan = chosen->rated.plan;
  plan.name = kExact.name;
  return plan;
}

namespace {

/// Returns the placement that is fastest in the simulator, among all numbers of devices per replica.
PlannedPlan best_placement(const RunSpec& experiment, const Model& model, const DeviceChoice& devices) {
  const CostSource& source = devices.source_of(devices.orders.front());
  const std::string where = fmt::format("strategy {}", kPlacement.name);
  std::optional<PlacedPlan> best;
  double least = 0;
  std::string misfit;
  for (PlacedPlan& placed : placed_plans(plan_request(experiment, model, source))) {
    const ProgramPrediction found = predict_program(experiment, model, placed.plan, source, without_pictures());
    if (found.tightest.missing() > 0) {
      misfit = found.row.reason;
      continue;
    }
    const double seconds = found.row.step_seconds->median;
    if (best && least <= seconds) continue;
    best = std::move(placed);
    least = seconds;
  }
  const int all = int(devices.orders.front().size());
  if (!best && !misfit.empty())
    fail_user({where, counted(all, "device"), misfit, "use more devices, a smaller batch, or another strategy"});
  if (!best)
    fail_user({where, fmt::format("model {}", model.name()),
               fmt::format("no placement of its layers on several of {} devices is faster than one device", all),
               "use another strategy"});
  return {
      std::move(best->plan),
      fmt::format("placement: {} for forward and backward on {} by the search, no placement takes less than {}; one "
                  "device: {}",
                  format_seconds(best->seconds), counted(best->devices, "device"), format_seconds(best->bound),
                  format_seconds(best->alone))};
}

}  // namespace

std::optional<Plan> placement_of_replicas(const RunSpec& experiment, const Model& model, const CostSource& source,
                                          int devices) {
  std::optional<PlacedPlan> placed = placed_plan(plan_request(experiment, model, source), devices);
  return placed ? std::optional(std::move(placed->plan)) : std::nullopt;
}

PlannedPlan planned_plan(const std::string& name, const RunSpec& experiment, const Model& model,
                         const DeviceChoice& devices) {
  check_internal(is_planned(name) && name != kExact.name, fmt::format("{} is no such strategy", name));
  if (name == kPlacement.name) return best_placement(experiment, model, devices);
  const int all = int(devices.orders.front().size());
  const PlanRequest request = plan_request(experiment, model, devices.source_of(devices.orders.front()));
  const std::optional<RatedPlan> rated = name == kAsa.name ? plan_asa(request) : plan_hybrid_static(request);
  if (!rated)
    fail_user(
        {fmt::format("strategy {}", name), counted(all, "device"),
         fmt::format("with a batch of {}, no mesh of all of them gives each device a sample and fits into their memory",
                     experiment.batch),
         "use another number of devices or another batch"});
  Plan plan = rated->plan;
  plan.name = name;
  return {std::move(plan)};
}

}  // namespace trireme
