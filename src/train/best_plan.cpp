#include "train/best_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "plan/strategy.h"
#include "planner/asa.h"
#include "runtime/optimizer.h"

namespace trireme {
namespace {

constexpr const char* kNamed[] = {"single", "data", "tensor", "pipeline", "1f1b", "hybrid:tensor", "hybrid:pipeline"};
constexpr size_t kMostSimulated = 12;

/// What the answer must beat: the plans that suit these devices.
std::vector<Plan> usual_plans(const Experiment& experiment, const Model& model, const CostSource& source, const PlanRequest& request) {
  std::vector<Plan> plans;
  for (const char* name : kNamed) {
    try {
      plans.push_back(make_plan(name, experiment, model, source));
    } catch (const Error&) {
      continue;  // not for so many devices, or not for this model
    }
  }
  if (const auto plan = plan_hybrid_static(request)) plans.push_back(plan->plan);
  if (const auto plan = plan_asa(request)) plans.push_back(plan->plan);
  return plans;
}

bool is_same(const Plan& a, const Plan& b) {
  return a.layers == b.layers && a.stages == b.stages && a.schedule == b.schedule && a.micro_batches == b.micro_batches &&
         a.optimizer_sharding == b.optimizer_sharding;
}

std::vector<Finalist> finalists_of(const PlanAnswer& answer, const PlanRequest& request) {
  std::vector<Finalist> finalists{{*answer.best}};
  for (const RatedPlan& other : answer.runners_up)
    if (finalists.size() < kMostSimulated) finalists.push_back({other});
  const ModelFacts facts(request);
  const StepModel formula(facts);
  for (const Plan& plan : request.known) {
    const bool is_there = std::any_of(finalists.begin(), finalists.end(), [&](const Finalist& f) { return is_same(f.rated.plan, plan); });
    if (is_there || request.objective != Objective::time || formula.unknown(plan)) continue;
    RatedPlan rated{plan, formula.predict(plan), 0};
    rated.objective = rated.prediction.seconds;
    if (rated.prediction.fits()) finalists.push_back({std::move(rated)});
  }
  return finalists;
}

}  // namespace

PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source) {
  PlanRequest request{.model = model, .cluster = source.cluster, .costs = *source.layers};
  request.batch = experiment.batch;
  request.bytes_per_value = experiment.precision == Precision::bf16 ? 2 : experiment.precision == Precision::fp64 ? 8 : 4;
  request.optimizer_tensors = optimizer_state_count(experiment.optimizer);
  return request;
}

BestPlan find_best_plan(const Experiment& experiment, const Model& model, int devices, const SourceOfDevices& source_of,
                        const BestPlanOptions& options) {
  const CostSource& source = source_of(devices);
  PlanRequest request = plan_request(experiment, model, source);
  request.objective = options.objective;
  request.time_limit = options.limit;
  request.tolerance = options.tolerance;
  request.known = usual_plans(experiment, model, source, request);
  BestPlan result{find_plan(request), {}};
  if (!result.answer.best) return result;
  result.finalists = finalists_of(result.answer, request);
  for (Finalist& finalist : result.finalists) {
    const Plan& plan = finalist.rated.plan;
    const RunResult row = predict(experiment, model, plan, source_of(plan.devices), {.timeline = false});
    finalist.simulated = row.step_seconds->median;
    finalist.fits_simulated = row.status != RunStatus::does_not_fit;
  }
  if (options.objective == Objective::time)
    std::stable_sort(result.finalists.begin(), result.finalists.end(),
                     [](const Finalist& a, const Finalist& b) { return a.simulated < b.simulated; });
  // the formula's memory is a bound of its own; the walk through the program decides
  std::stable_partition(result.finalists.begin(), result.finalists.end(), [](const Finalist& f) { return f.fits_simulated; });
  return result;
}

void fail_nothing_fits(const std::string& where, const Shortfall& shortfall, const Model& model) {
  const RatedPlan& nearest = shortfall.nearest;
  const DeviceMemory& m = nearest.prediction.memory[size_t(shortfall.stage)];
  const std::string holds = fmt::format("weights {}, gradients {}, optimizer {}, activations {}, workspace {}", format_bytes(int64_t(m.weights)),
                                        format_bytes(int64_t(m.gradients)), format_bytes(int64_t(m.optimizer)),
                                        format_bytes(int64_t(m.activations)), format_bytes(int64_t(m.workspace)));
  std::string next;
  for (const std::string& change : shortfall.changes) next += (next.empty() ? "" : "; or ") + change;
  fail_user({where, "no plan fits into the devices' memory",
             fmt::format("the nearest, {}, lacks {} on the devices of stage {} ({})", nearest.plan.in_short(model),
                         format_bytes(int64_t(shortfall.missing)), shortfall.stage, holds),
             next});
}

Plan planned_plan(const std::string& name, const Experiment& experiment, const Model& model, int devices, const SourceOfDevices& source_of) {
  const std::string where = fmt::format("strategy {}", name);
  check_internal(is_planned(name), fmt::format("{} is no planner's plan", name));
  Plan plan;
  if (name == "exact") {
    const BestPlan best = find_best_plan(experiment, model, devices, source_of);
    if (!best.answer.best && best.answer.shortfall) fail_nothing_fits(where, *best.answer.shortfall, model);
    if (!best.answer.best) fail_user({where, "no plan", best.answer.proof, "use fewer devices"});
    plan = best.finalists.front().rated.plan;
  } else {
    const PlanRequest request = plan_request(experiment, model, source_of(devices));
    const std::optional<RatedPlan> rated = name == "asa" ? plan_asa(request) : plan_hybrid_static(request);
    if (!rated)
      fail_user({where, fmt::format("{} devices", devices),
                 fmt::format("with a batch of {} no mesh of all of them has a sample for everyone and fits into their memory", experiment.batch),
                 "use another number of devices or another batch"});
    plan = rated->plan;
  }
  plan.name = name;
  return plan;
}

}  // namespace trireme
