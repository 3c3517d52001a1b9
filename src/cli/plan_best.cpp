// `trireme plan --objective`: the best plan for an experiment, found by the exact planner and looked at by the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/plan_choice.h"
#include "cli/text_table.h"
#include "plan/named.h"
#include "planner/exact/find_plan.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr const char* kNamed[] = {"data", "tensor", "pipeline", "1f1b", "hybrid:tensor", "hybrid:pipeline"};
constexpr size_t kMostSimulated = 12;

Objective objective_of(const std::string& name) {
  if (name == "memory") return Objective::memory;
  return name == "cost" ? Objective::cost : Objective::time;
}

/// A plan, what the planner's formulas say of it, and the simulator.
struct Finalist {
  RatedPlan rated;
  double simulated = 0;
};

/// The named plans that suit these devices: what the answer must beat.
std::vector<Plan> named_plans(const Experiment& experiment, const Model& model, const CostSource& source) {
  std::vector<Plan> plans;
  for (const char* name : kNamed) {
    try {
      plans.push_back(make_plan(name, experiment, model, source));
    } catch (const Error&) {
      continue;  // not for so many devices, or not for this model
    }
  }
  return plans;
}

PlanRequest request_for(const PlanBestOptions& options, const Experiment& experiment, const Model& model, const CostSource& source) {
  PlanRequest request{.model = model, .cluster = source.cluster, .costs = *source.layers};
  request.batch = experiment.batch;
  request.bytes_per_value = experiment.precision == Precision::bf16 ? 2 : experiment.precision == Precision::fp64 ? 8 : 4;
  request.optimizer_tensors = optimizer_state_count(experiment.optimizer);
  request.objective = objective_of(options.objective);
  request.known = named_plans(experiment, model, source);
  request.time_limit = options.limit;
  return request;
}

/// The answer, its runners-up and the named plans, the best by the simulator's clock first where time is asked for.
std::vector<Finalist> finalists_of(const PlanAnswer& answer, const PlanRequest& request, const Experiment& experiment, const Model& model,
                                   const CostSource& source) {
  std::vector<Finalist> finalists{{*answer.best}};
  for (const RatedPlan& other : answer.runners_up)
    if (finalists.size() < kMostSimulated) finalists.push_back({other});
  const ModelFacts facts(request);
  const StepModel formula(facts);
  for (const Plan& plan : request.known) {
    const bool is_there = std::any_of(finalists.begin(), finalists.end(), [&](const Finalist& f) {
      return f.rated.plan.layers == plan.layers && f.rated.plan.schedule == plan.schedule && f.rated.plan.micro_batches == plan.micro_batches;
    });
    if (is_there || request.objective != Objective::time || formula.unknown(plan)) continue;
    RatedPlan rated{plan, formula.predict(plan), 0};
    if (rated.prediction.fits()) finalists.push_back({std::move(rated)});
  }
  for (Finalist& finalist : finalists)
    finalist.simulated = predict(experiment, model, finalist.rated.plan, source, {.timeline = false}).step_seconds->median;
  if (request.objective == Objective::time)
    std::stable_sort(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) { return a.simulated < b.simulated; });
  return finalists;
}

std::string share(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", std::max(0.0, 100 * part / whole)) : ""; }

std::string explanation(const std::vector<Finalist>& finalists, const PlanAnswer& answer, const Model& model) {
  std::vector<std::vector<std::string>> rows;
  for (const Finalist& c : finalists) {
    const Prediction& p = c.rated.prediction;
    rows.push_back({c.rated.plan.in_short(model), format_seconds(c.simulated), format_seconds(p.seconds), share(p.compute, p.seconds),
                    share(p.bubble, p.seconds), share(p.communication, p.seconds), share(p.reduction, p.seconds), share(p.update, p.seconds),
                    format_bytes(int64_t(p.fullest()))});
  }
  std::string text = text_table({"plan", "simulated", "by formula", "computing", "bubble", "exposed comm.", "reducing", "update", "fullest device"},
                                rows, {1, 2, 3, 4, 5, 6, 7, 8});
  text += fmt::format("searched: {}\n{}; no plan of these takes less than {:.6g} by the formula (gap {:.2f} %)\n", answer.searched, answer.proof,
                      answer.lower_bound, 100 * answer.gap());
  return text;
}

[[noreturn]] void refuse(const Shortfall& shortfall, const Model& model) {
  const RatedPlan& nearest = shortfall.nearest;
  const DeviceMemory& m = nearest.prediction.memory[size_t(shortfall.stage)];
  const std::string holds = fmt::format("weights {}, gradients {}, optimizer {}, activations {}, workspace {}", format_bytes(int64_t(m.weights)),
                                        format_bytes(int64_t(m.gradients)), format_bytes(int64_t(m.optimizer)),
                                        format_bytes(int64_t(m.activations)), format_bytes(int64_t(m.workspace)));
  std::string next;
  for (const std::string& change : shortfall.changes) next += (next.empty() ? "" : "; or ") + change;
  fail_user({"plan", "no plan fits into the devices' memory",
             fmt::format("the nearest, {}, lacks {} on the devices of stage {} ({})", nearest.plan.in_short(model),
                         format_bytes(int64_t(shortfall.missing)), shortfall.stage, holds),
             next});
}

}  // namespace

int run_plan_best(const PlanBestOptions& options) {
  Experiment experiment = options.experiment.read();
  const TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  Predictions predictions(experiment, model, data, options.prediction);
  const int devices = options.experiment.devices.empty() ? experiment.devices.front() : options.experiment.devices.front();
  const CostSource& source = predictions.source(devices);
  const PlanRequest request = request_for(options, experiment, model, source);
  const PlanAnswer answer = find_plan(request);
  predictions.keep();
  if (!answer.best) refuse(answer.shortfall.value(), model);
  const std::vector<Finalist> finalists = finalists_of(answer, request, experiment, model, source);
  Plan plan = finalists.front().rated.plan;
  plan.name = "exact";
  if (options.explain) std::cerr << "on " << predictions.in_words() << ":\n" << explanation(finalists, answer, model);
  std::cout << plan_text(plan, model);
  return 0;
}

}  // namespace trireme
