// `trireme plan --objective`: the best plan for an experiment, found by the exact planner and looked at by the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
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
  return text + fmt::format("searched: {}\n", answer.searched);
}

std::string amount_in_words(double value, Objective objective) {
  if (objective == Objective::memory) return format_bytes(int64_t(value));
  return objective == Objective::cost ? fmt::format("{:.4g} a step", value) : format_seconds(value);
}

std::string if_in_words(const WhatIf& what_if, const RatedPlan& best, const Model& model, Objective objective) {
  const std::optional<RatedPlan>& other = what_if.answer.best;
  if (!other) return fmt::format("if {}: {}\n", what_if.change, what_if.answer.proof);
  const auto amount = [&](double value) { return amount_in_words(value, objective); };
  const bool same = other->plan.layers == best.plan.layers && other->plan.schedule == best.plan.schedule &&
                    other->plan.micro_batches == best.plan.micro_batches && other->plan.stages == best.plan.stages;
  constexpr double kProven = 1e-3;
  const std::string doubt = what_if.answer.gap() > kProven ? fmt::format(" (at most {:.2g} % from the least there is)", 100 * what_if.answer.gap()) : "";
  return fmt::format("if {}: {} by the formula in place of {} ({:+.1f} %), by {}{}\n", what_if.change, amount(other->objective),
                     amount(best.objective), 100 * (other->objective / best.objective - 1), same ? "the same plan" : other->plan.in_short(model), doubt);
}

/// "1%", "1 %", "0.5%", "0"
double parse_gap(const std::string& text) {
  if (text.empty()) return 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end + std::strspn(end, " ");
  if (end == text.c_str() || (unit != "%" && !(unit.empty() && value == 0)) || !(value >= 0 && value < 100))
    fail_user({"--gap", "\"" + text + "\"", "must be a share of the optimum in percent, less than 100 %", "for example --gap 1%"});
  return value / 100;
}

/// "60 s", "5 min", or "60" seconds.
double parse_limit(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
  const double value = parse_seconds(number ? text + " s" : text, "--time-limit");
  if (!(value > 0) || !std::isfinite(value))
    fail_user({"--time-limit", "\"" + text + "\"", "must be more than 0", "for example --time-limit \"60 s\""});
  return value;
}

/// What is proven about the plan that is printed, which the simulator may like better than the planner's own best.
std::string proof_in_words(const RatedPlan& plan, const PlanAnswer& answer, Objective objective) {
  constexpr double kRounding = 1e-9;
  const auto amount = [&](double value) { return amount_in_words(value, objective); };
  const double gap = plan.objective > 0 ? (plan.objective - answer.lower_bound) / plan.objective : 0;
  std::string text = fmt::format("{} by the formula, ", amount(plan.objective));
  text += gap < -kRounding   ? fmt::format("less than anything that was searched, {} or more", amount(answer.lower_bound))
          : gap <= kRounding ? std::string("the least there is")
                           : fmt::format("at most {:.2g} % from the least there is, which is {} or more", 100 * gap, amount(answer.lower_bound));
  if (plan.objective > answer.best->objective * (1 + kRounding))
    text += fmt::format("; by the simulator's clock it is quicker than the formula's best, {}", amount(answer.best->objective));
  return fmt::format("{} ({})\n", text, answer.proof);
}

/// Of the devices that were given, a plan may use only some.
std::string devices_in_words(const Plan& plan, int devices) {
  if (plan.devices == devices) return "";
  return fmt::format("uses {} of {} devices: nothing that was found for more is better\n", plan.devices, devices);
}

}  // namespace

int run_plan_best(const PlanBestOptions& options) {
  const Objective objective = objective_of(options.objective);
  const double tolerance = parse_gap(options.gap), limit = parse_limit(options.time_limit);
  Experiment experiment = options.experiment.read();
  const TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  Predictions predictions(experiment, model, data, options.prediction);
  const int devices = options.experiment.devices.empty() ? experiment.devices.front() : options.experiment.devices.front();
  BestPlan best;
  predictions.settle([&] { best = find_best_plan(experiment, model, devices, predictions.sources(), {objective, limit, tolerance}); });
  predictions.keep();
  if (!best.answer.best && best.answer.shortfall) fail_nothing_fits("plan", *best.answer.shortfall, model);
  if (!best.answer.best) fail_user({"--time-limit", options.time_limit, "no plan was found in time", "give the search more"});
  check_fits("plan", best, model);
  if (best.by_memory) std::cerr << "the quickest or cheapest plans are too full when simulated: this one needs the least memory\n";
  const Objective answered = best.by_memory ? Objective::memory : objective;
  const RatedPlan& rated = best.finalists.front().rated;
  Plan plan = rated.plan;
  plan.name = "exact";
  std::cerr << devices_in_words(plan, devices);
  if (options.explain) std::cerr << "on " << predictions.in_words() << ":\n" << explanation(best.finalists, best.answer, model);
  std::cerr << proof_in_words(rated, best.answer, answered);
  if (options.explain) {
    PlanRequest request = plan_request(experiment, model, predictions.source(devices));
    request.objective = answered;
    request.time_limit = limit;
    request.tolerance = tolerance;
    if (best.answer.best->objective != rated.objective)
      std::cerr << fmt::format("the formula's best plan, {} ({}), asked again by the formula:\n", best.answer.best->plan.in_short(model),
                               amount_in_words(best.answer.best->objective, answered));
    for (const WhatIf& change : what_if(request, *best.answer.best)) std::cerr << if_in_words(change, *best.answer.best, model, answered);
  }
  std::cout << plan_text(plan, model);
  return 0;
}

}  // namespace trireme
