// `trireme plan --objective`: the best plan for an experiment, found by the exact planner and looked at by the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/plan_choice.h"
#include "cli/text_table.h"
#include "planner/exact/sensitivity.h"
#include "train/best_plan.h"
#include "train/trainer.h"

namespace trireme {
namespace {

Objective objective_of(const std::string& name) {
  if (name == "memory") return Objective::memory;
  return name == "cost" ? Objective::cost : Objective::time;
}

std::string share(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", std::max(0.0, 100 * part / whole)) : ""; }

std::string explanation(const std::vector<Finalist>& finalists, const PlanAnswer& answer, const Model& model) {
  std::vector<std::vector<std::string>> rows;
  for (const Finalist& c : finalists) {
    const Prediction& p = c.rated.prediction;
    rows.push_back({c.rated.plan.in_short(model), format_seconds(c.simulated), format_seconds(p.seconds), share(p.compute, p.seconds),
                    share(p.bubble, p.seconds), share(p.communication, p.seconds), share(p.reduction, p.seconds), share(p.update, p.seconds),
                    format_bytes(int64_t(p.fullest())) + (c.fits_simulated ? "" : ", too full when simulated")});
  }
  std::string text = text_table({"plan", "simulated", "by formula", "computing", "bubble", "exposed comm.", "reducing", "update", "fullest device"},
                                rows, {1, 2, 3, 4, 5, 6, 7, 8});
  text += fmt::format("searched: {}\n{}; no plan of these takes less than {:.6g} by the formula (gap {:.2f} %)\n", answer.searched, answer.proof,
                      answer.lower_bound, 100 * answer.gap());
  return text;
}

std::string if_in_words(const WhatIf& what_if, const RatedPlan& best, const Model& model, const std::string& objective) {
  const std::optional<RatedPlan>& other = what_if.answer.best;
  if (!other) return fmt::format("if {}: {}\n", what_if.change, what_if.answer.proof);
  const auto amount = [&](double value) {
    if (objective == "memory") return format_bytes(int64_t(value));
    return objective == "cost" ? fmt::format("{:.4g} a step", value) : format_seconds(value);
  };
  const bool same = other->plan.layers == best.plan.layers && other->plan.schedule == best.plan.schedule &&
                    other->plan.micro_batches == best.plan.micro_batches && other->plan.stages == best.plan.stages;
  return fmt::format("if {}: {} by the formula in place of {} ({:+.1f} %), by {}\n", what_if.change, amount(other->objective),
                     amount(best.objective), 100 * (other->objective / best.objective - 1), same ? "the same plan" : other->plan.in_short(model));
}

/// Of the devices that were given, a plan may use only some.
std::string devices_in_words(const Plan& plan, int devices) {
  if (plan.devices == devices) return "";
  return fmt::format("uses {} of {} devices: nothing that was found for more is better\n", plan.devices, devices);
}

}  // namespace

int run_plan_best(const PlanBestOptions& options) {
  Experiment experiment = options.experiment.read();
  const TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  Predictions predictions(experiment, model, data, options.prediction);
  const int devices = options.experiment.devices.empty() ? experiment.devices.front() : options.experiment.devices.front();
  const BestPlan best = find_best_plan(experiment, model, devices, predictions.sources(), {objective_of(options.objective), options.limit});
  predictions.keep();
  if (!best.answer.best) fail_nothing_fits("plan", best.answer.shortfall.value(), model);
  Plan plan = best.finalists.front().rated.plan;
  plan.name = "exact";
  std::cerr << devices_in_words(plan, devices);
  if (options.explain) {
    std::cerr << "on " << predictions.in_words() << ":\n" << explanation(best.finalists, best.answer, model);
    PlanRequest request = plan_request(experiment, model, predictions.source(devices));
    request.objective = objective_of(options.objective);
    request.time_limit = options.limit;
    for (const WhatIf& change : what_if(request, *best.answer.best))
      std::cerr << if_in_words(change, *best.answer.best, model, options.objective);
  }
  std::cout << plan_text(plan, model);
  return 0;
}

}  // namespace trireme
