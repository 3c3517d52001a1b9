#include "forecast/best_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "plan/cluster_file.h"
#include "plan/strategy.h"
#include "planner/asa.h"
#include "planner/exact/least_memory.h"
#include "runtime/optimizer.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMostSimulated = 12;
constexpr size_t kMostVaried = 3;

/// Returns the usual plans that suit these devices. The answer must not be slower than any of them.
std::vector<Plan> usual_plans(const RunSpec& experiment, const Model& model, const CostSource& source,
                              const PlanRequest& request) {
  std::vector<Plan> plans;
  for (const std::string& name : strategies_to_beat()) {
    try {
      plans.push_back(make_plan(name, experiment, model, source));
    } catch (const Error&) {
      continue;  // not for this number of devices, or not for this model
    }
  }
  if (const auto plan = plan_hybrid_static(request)) plans.push_back(plan->plan);
  if (const auto plan = plan_asa(request)) plans.push_back(plan->plan);
  return plans;
}

/// Counts the parts of a plan (stages, micro-batches, sharding, changes of the mesh). A plan with one mesh for all
/// layers and samples has the fewest.
int parts_of(const Plan& plan) {
  int parts = int(plan.stages.size()) + plan.micro_batches + int(plan.optimizer_sharding != OptimizerSharding::none);
  for (size_t i = 1; i < plan.layers.size(); ++i) {
    const LayerPlan &before = plan.layers[i - 1], &layer = plan.layers[i];
    parts += int(layer.stage == before.stage &&
                 std::pair(layer.data, layer.tensor) != std::pair(before.data, before.tensor));
  }
  return parts;
}

bool contains(const std::vector<Finalist>& finalists, const Plan& plan) {
  return std::any_of(finalists.begin(), finalists.end(),
                     [&](const Finalist& f) { return is_same(f.rated.plan, plan); });
}

/// Rates the plan by time. nullopt: the formula does not cover the plan, or the plan does not fit.
std::optional<RatedPlan> rated_by(const StepModel& formula, const Plan& plan) {
  if (formula.unknown(plan)) return std::nullopt;
  RatedPlan rated{plan, formula.predict(plan), 0};
  rated.objective = rated.prediction.seconds;
  if (!rated.prediction.fits()) return std::nullopt;
  return rated;
}

bool has_replicas(const Plan& plan) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [](const LayerPlan& layer) { return layer.data > 1; });
}

bool is_plain(const Plan& plan) { return find_schedule(plan.schedule, plan.name).is_plain(); }

/// Returns variants of a found plan that the search leaves out: schedules that split backward, optimizer sharding.
std::vector<Plan> variants_of(const Plan& plan) {
  std::vector<Plan> variants;
  std::vector<std::string> schedules{plan.schedule};
  if (plan.stages.size() > 1 && is_plain(plan))
    for (std::string& name : schedule_names([](const Schedule& s) { return s.step_rule && s.splits_backward; }))
      schedules.push_back(std::move(name));
  for (const std::string& schedule : schedules)
    for (const OptimizerSharding sharding : {plan.optimizer_sharding, OptimizerSharding::zero1}) {
      Plan variant = plan;
      variant.optimizer_sharding = sharding;
      variant.schedule = schedule;
      if (is_same(variant, plan) || (sharding != plan.optimizer_sharding && !has_replicas(plan))) continue;
      variants.push_back(std::move(variant));
    }
  return variants;
}

/// Simulates the finalist's plan and stores the results in the finalist.
void simulate_finalist(const RunSpec& experiment, const Model& model, const SourceOfDevices& source_of,
                       Finalist& finalist) {
  const Plan& plan = finalist.rated.plan;
  const RunResult row =
      predict(experiment, model, plan,
              source_of(plan.cluster_devices.empty() ? device_numbers(0, plan.devices) : plan.cluster_devices),
              {.timeline = false});
  finalist.simulated = row.step_seconds->median;
  finalist.fits_simulated = row.status != RunStatus::does_not_fit;
  finalist.is_measured = row.predicted->basis != name_of(Basis::datasheet);
}

/// Sorts finalists: those that fit first; with objective time, the fastest first. The formula's memory is only a bound;
/// the simulator's dry run decides what fits.
void rank(std::vector<Finalist>& finalists, Objective objective) {
  if (objective == Objective::time)
    std::stable_sort(finalists.begin(), finalists.end(),
                     [](const Finalist& a, const Finalist& b) { return a.simulated < b.simulated; });
  std::stable_partition(finalists.begin(), finalists.end(), [](const Finalist& f) { return f.fits_simulated; });
}

/// Adds variants of the best finalists.
void vary(const RunSpec& experiment, const Model& model, const PlanRequest& request, const SourceOfDevices& source_of,
          std::vector<Finalist>& finalists) {
  const ModelFacts facts(request);
  const StepModel formula(facts);
  const std::vector<Finalist> best(finalists.begin(),
                                   finalists.begin() + int64_t(std::min(kMostVaried, finalists.size())));
  for (const Finalist& finalist : best)
    for (const Plan& plan : variants_of(finalist.rated.plan)) {
      if (contains(finalists, plan)) continue;
      try {
        validate(plan, model, experiment.batch, "a variant");
        std::optional<RatedPlan> rated = rated_by(formula, plan);
        if (!rated) continue;
        Finalist added{std::move(*rated)};
        simulate_finalist(experiment, model, source_of, added);
        finalists.push_back(std::move(added));
      } catch (const Error& error) {
        if (error.blame() != Blame::user) throw;  // the variant is invalid for this model or these micro-batches
      }
    }
}

std::vector<Finalist> finalists_of(const PlanAnswer& answer, const PlanRequest& request) {
  std::vector<Finalist> finalists{{*answer.best}};
  for (const RatedPlan& other : answer.runners_up)
    if (finalists.size() < kMostSimulated && !contains(finalists, other.plan)) finalists.push_back({other});
  const ModelFacts facts(request);
  const StepModel formula(facts);
  for (const Plan& plan : request.known) {
    if (request.objective != Objective::time || contains(finalists, plan)) continue;
    if (std::optional<RatedPlan> rated = rated_by(formula, plan)) finalists.push_back({std::move(*rated)});
  }
  return finalists;
}

/// Searches for a plan. Optimizer sharding multiplies the configurations, so it is searched only if nothing fits
/// without it. In that case it is added to the request's space.
PlanAnswer search(PlanRequest& request) {
  const Deadline deadline(request.time_limit);
  PlanAnswer answer = search_plan(request);
  const bool none_fits = !answer.best && !answer.out_of_time;
  if (!none_fits || request.cluster.size() == 1) {
    if (none_fits) answer.shortfall = explain_shortfall(request);
    return answer;
  }
  request.space.shardings.assign(kOptimizerShardings.begin(), kOptimizerShardings.end());
  PlanAnswer divided = search_plan(within(request, deadline));
  if (divided.best) return divided;
  answer.shortfall = explain_shortfall(request);
  return answer;
}

/// The plan uses the first devices of `order`. Stores their numbers in the plan, unless they are the cluster's first
/// devices.
void note_devices(const std::vector<int>& order, Plan& plan) {
  plan.cluster_devices.assign(order.begin(), order.begin() + plan.devices);
  if (plan.cluster_devices == device_numbers(0, plan.devices)) plan.cluster_devices.clear();
}

BestPlan find_in_order(const RunSpec& experiment, const Model& model, const std::vector<int>& order,
                       const SourceOfDevices& source_of, const BestPlanOptions& options) {
  const CostSource& source = source_of(order);
  PlanRequest request = plan_request(experiment, model, source);
  request.objective = options.objective;
  request.time_limit = options.limit;
  request.tolerance = options.tolerance;
  request.known = usual_plans(experiment, model, source, request);
  BestPlan result{.answer = search(request), .finalists = {}, .order = order};
  if (!result.answer.best) return result;
  result.finalists = finalists_of(result.answer, request);
  const auto on_order = [&](std::vector<Finalist>& finalists) {
    for (Finalist& finalist : finalists) note_devices(order, finalist.rated.plan);
  };
  on_order(result.finalists);
  for (Finalist& finalist : result.finalists) simulate_finalist(experiment, model, source_of, finalist);
  rank(result.finalists, options.objective);
  if (options.objective == Objective::time) {
    vary(experiment, model, request, source_of, result.finalists);
    rank(result.finalists, options.objective);
  }
  if (result.finalists.front().fits_simulated || options.objective == Objective::memory) return result;
  BestPlanOptions smaller = options;
  smaller.objective = Objective::memory;
  BestPlan least = find_in_order(experiment, model, order, source_of, smaller);
  least.by_memory = true;
  return least.finalists.empty() || !least.finalists.front().fits_simulated ? result : least;
}

/// Sort key of a result; the least is best. First: whether it has a plan for the objective, and one that fits. Then:
/// the value of the objective.
std::tuple<int, double, double> rank_of(const BestPlan& found, Objective objective) {
  if (found.finalists.empty()) return {3, 0, 0};
  const Finalist& front = found.finalists.front();
  return {!front.fits_simulated ? 2
          : found.by_memory     ? 1
                                : 0,
          objective == Objective::time ? front.simulated : front.rated.objective, front.simulated};
}

/// Returns the shortfall of the search that was nearest to fitting. Null if a search ended early, because its shortfall
/// is unknown.
const Shortfall* nearest_of(const std::vector<BestPlan>& found) {
  const Shortfall* nearest = nullptr;
  for (const BestPlan& one : found) {
    if (!one.answer.shortfall) return nullptr;
    if (!nearest || one.answer.shortfall->missing < nearest->missing) nearest = &*one.answer.shortfall;
  }
  return nearest;
}

/// Combines the searches over several orders of the devices.
BestPlan best_of(std::vector<BestPlan> found, size_t orders, Objective objective) {
  const auto best = std::min_element(found.begin(), found.end(), [&](const BestPlan& a, const BestPlan& b) {
    return rank_of(a, objective) < rank_of(b, objective);
  });
  BestPlan result = *best;
  result.orders = orders;
  if (orders == 1) return result;
  if (result.finalists.empty()) {
    const Shortfall* nearest = nearest_of(found);
    result.answer.shortfall = nearest ? std::optional(*nearest) : std::nullopt;
    return result;
  }
  for (auto other = found.begin(); other != found.end(); ++other) {
    result.answer.lower_bound = std::min(result.answer.lower_bound, other->answer.lower_bound);
    if (other != best && !other->finalists.empty() && other->by_memory == result.by_memory)
      result.finalists.push_back(other->finalists.front());
  }
  if (objective != Objective::time)
    std::stable_sort(result.finalists.begin() + 1, result.finalists.end(),
                     [](const Finalist& a, const Finalist& b) { return a.rated.objective < b.rated.objective; });
  rank(result.finalists, objective);
  return result;
}

}  // namespace

bool is_same(const Plan& a, Plan b) {
  if (a.micro_batches == 1 && is_plain(a) && is_plain(b))
    b.schedule = a.schedule;  // with one micro-batch, both fill and drain in the same way
  b.name = a.name;
  return a == b;
}

PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source) {
  PlanRequest request{.model = model, .cluster = source.cluster, .costs = *source.layers};
  request.batch = experiment.batch;
  request.bytes_per_value = experiment.precision == Precision::bf16   ? 2
                            : experiment.precision == Precision::fp64 ? 8
                                                                      : 4;
  request.optimizer_tensors = optimizer_state_count(experiment.optimizer);
  return request;
}

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

void fail_nothing_fits(const std::string& where, const Shortfall& shortfall, const Model& model) {
  const RatedPlan& nearest = shortfall.nearest;
  if (nearest.prediction.memory.empty())
    fail_user({where, "there is no plan", "even with unlimited memory", join(shortfall.changes, "; or ")});
  const DeviceMemory& m = nearest.prediction.memory[size_t(shortfall.stage)];
  std::vector<std::string> holds;
  const std::pair<const char*, double> categories[] = {{"weights", m.weights},
                                                       {"gradients", m.gradients},
                                                       {"optimizer", m.optimizer},
                                                       {"activations", m.activations},
                                                       {"workspace", m.workspace}};
  for (const auto& [name, bytes] : categories)
    if (bytes > 0) holds.push_back(fmt::format("{} {}", name, format_bytes(int64_t(bytes))));
  const char* less = shortfall.is_least ? "" : "; the time limit ended the search, so less may be enough";
  fail_user({where, "no plan fits into the devices' memory",
             fmt::format("the nearest, {}, lacks {} on the devices of stage {} ({}){}", nearest.plan.in_short(model),
                         format_bytes(int64_t(shortfall.missing)), shortfall.stage, join(holds), less),
             "what would fit: " + join(shortfall.changes, "; or ")});
}

void check_fits(const std::string& where, const BestPlan& best, const Model& model) {
  const Finalist& front = best.finalists.front();
  if (front.fits_simulated) return;
  fail_user({where, "no plan that was found fits into the devices' memory",
             fmt::format("the nearest, {}, needs {} by the formula, and more than the devices have when simulated",
                         front.rated.plan.in_short(model), format_bytes(int64_t(front.rated.prediction.fullest()))),
             "use more devices, a smaller batch or more memory"});
}

const Finalist* to_run(const std::vector<Finalist>& finalists, int devices) {
  const auto suits = [&](const Finalist& f) { return devices == 0 || f.rated.plan.devices == devices; };
  const auto quickest = std::find_if(finalists.begin(), finalists.end(), suits);
  if (quickest == finalists.end()) return nullptr;
  const Finalist* chosen = &*quickest;
  if (!chosen->is_measured || !chosen->fits_simulated) return chosen;
  const double limit = (1 + kDoubt) * chosen->simulated;
  for (const Finalist& other : finalists) {
    if (!suits(other) || !other.fits_simulated || other.simulated > limit) continue;
    if (std::pair(parts_of(other.rated.plan), other.simulated) <
        std::pair(parts_of(chosen->rated.plan), chosen->simulated))
      chosen = &other;
  }
  return chosen;
}

Plan planned_plan(const std::string& name, const RunSpec& experiment, const Model& model, const DeviceChoice& devices) {
  const std::string where = fmt::format("strategy {}", name);
  check_internal(is_planned(name), fmt::format("{} is no planner's plan", name));
  Plan plan;
  if (name == kExact.name) {
    const BestPlan best = find_best_plan(experiment, model, devices);
    if (!best.answer.best && best.answer.shortfall) fail_nothing_fits(where, *best.answer.shortfall, model);
    if (!best.answer.best) fail_user({where, "no plan", best.answer.proof, "use fewer devices"});
    check_fits(where, best, model);
    const int all = int(devices.orders.front().size());
    const Finalist* const chosen = to_run(best.finalists, experiment.processes ? all : 0);
    if (!chosen || !chosen->fits_simulated)
      fail_user({where, fmt::format("no plan of all {} processes was found that fits", all),
                 fmt::format("the quickest, {}, has {}", best.finalists.front().rated.plan.in_short(model),
                             best.finalists.front().rated.plan.devices),
                 "start that many processes (for one, use threads), or name a plan: --plan " + usual_strategy()});
    plan = chosen->rated.plan;
  } else {
    const PlanRequest request = plan_request(experiment, model, devices.source_of(devices.orders.front()));
    const std::optional<RatedPlan> rated = name == kAsa.name ? plan_asa(request) : plan_hybrid_static(request);
    if (!rated)
      fail_user({where, fmt::format("{} devices", devices.orders.front().size()),
                 fmt::format(
                     "with a batch of {}, no mesh of all of them gives each device a sample and fits into their memory",
                     experiment.batch),
                 "use another number of devices or another batch"});
    plan = rated->plan;
  }
  plan.name = name;
  return plan;
}

}  // namespace trireme
