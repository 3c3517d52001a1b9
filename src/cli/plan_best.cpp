// `trireme plan best`: the best plan for an experiment, found by the exact planner and checked by the simulator.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/cost_source_flags.h"
#include "cli/described_devices.h"
#include "cli/explain_plan.h"
#include "cli/plan_choice.h"
#include "cli/plan_command.h"
#include "cli/predict_subject.h"
#include "cost/money.h"
#include "plan/strategies.h"
#include "report/progress.h"
#include "report/width.h"
#include "train/measure_step.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Objective objective_of(const std::string& name) {
  if (name == "memory") return Objective::memory;
  return name == "cost" ? Objective::cost : Objective::time;
}

/// Parses "1%", "1 %", "0.5%" or "0".
double parse_gap(const std::string& text) {
  if (text.empty()) return 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end + std::strspn(end, " ");
  if (end == text.c_str() || (unit != "%" && !(unit.empty() && value == 0)) || !(value >= 0 && value < 100))
    fail_user({"--gap", "\"" + text + "\"", "must be a share of the optimum in percent, less than 100 %",
               "for example --gap 1%"});
  return value / 100;
}

/// What the printed plan was chosen by.
enum class ChosenBy { simulation, trials };

/// States what is proven about the printed plan. The simulator or trial steps may have preferred it to the planner's
/// own best plan.
std::string proof_in_words(const BestPlan& best, ChosenBy chosen_by, Objective objective, const std::string& currency) {
  constexpr double kRounding = 1e-9;
  const RatedPlan& plan = best.finalists.front().rated;
  const PlanAnswer& answer = best.answer;
  const auto amount = [&](double value) { return amount_in_words(value, objective, currency); };
  const double gap = plan.objective > 0 ? (plan.objective - answer.lower_bound) / plan.objective : 0;
  std::string text = amount(plan.objective) + " by the formula";
  text +=
      gap < -kRounding
          ? fmt::format("; a variant in schedule or sharding of a searched plan: every searched plan needs at least {}",
                        amount(answer.lower_bound))
      : gap <= kRounding ? std::string(", proven to be the minimum")
                         : fmt::format("; no plan needs less than {}: a gap of at most {:.2g} %",
                                       amount(answer.lower_bound), 100 * gap);
  const bool is_other = plan.objective > answer.best->objective * (1 + kRounding);
  std::string proof = answer.proof;
  if (best.orders > 1) proof += fmt::format("; for stages on consecutive devices in one of {} orders", best.orders);
  if (!is_other) return fmt::format("{} ({})\n", text, proof);
  return fmt::format("{}; the formula's best plan, {} ({}), {}\n", text, amount(answer.best->objective), proof,
                     !best.answer_fits                ? "does not fit into the devices' memory"
                     : objective == Objective::memory ? "needs more memory in the simulation"
                     : chosen_by == ChosenBy::trials  ? "was not chosen after trial steps"
                                                      : "is slower in the simulation");
}

/// States how much of the devices' memory the plan needs. `cluster`: its devices.
std::string memory_in_words(const Finalist& finalist, const Cluster& cluster) {
  const MemoryNeed& tightest = finalist.tightest;
  std::string limit;
  if (tightest.limit > 0) {
    const bool is_fullest = tightest.peak == finalist.needed_memory;
    const bool is_smallest = tightest.limit == least_memory(cluster, finalist.rated.plan.devices);
    limit = is_fullest && is_smallest
                ? fmt::format("; the smallest has {}", format_bytes(tightest.limit))
                : fmt::format("; device {} has the least to spare in proportion: it needs {} of {}", tightest.device,
                              format_bytes(tightest.peak), format_bytes(tightest.limit));
  }
  const char* allocator = finalist.needed_memory > finalist.peak_memory ? ", with its allocator," : "";
  return fmt::format("needs {}{} on the fullest device{}\n", format_bytes(finalist.needed_memory), allocator, limit);
}

/// States how many of the given devices the plan uses; "" if it uses all.
std::string devices_in_words(const Plan& plan, ChosenBy chosen_by, int devices) {
  if (plan.devices == devices) return "";
  return fmt::format(
      "uses {} of {} devices: {}\n", plan.devices, devices,
      chosen_by == ChosenBy::trials ? "chosen after trial steps" : "no plan found for more devices is better");
}

/// Returns the price of a simulated step and of an epoch; "" if prices are unknown.
std::string price_in_words(const Finalist& finalist, double steps_per_epoch, Predictions& predictions) {
  const Cluster& cluster = predictions.source(finalist.rated.plan).cluster;
  const std::optional<Money> step = price_of(cluster, finalist.simulated);
  if (!step) return "";
  ExperimentResult prices;
  predictions.describe_prices(prices);
  return fmt::format("simulated: {} a step, {} an epoch; prices: {}\n", format_money(step),
                     format_money(price_per_epoch(cluster, finalist.simulated, steps_per_epoch)), prices.prices);
}

void require_price(const Experiment& experiment, const CostSourceOptions& source) {
  if (!source.cluster.empty() || experiment.price_per_hour > 0) return;  // the planner checks the price of a cluster
  fail_user({"--objective cost", experiment.file.string(), "states no price of this machine",
             "state what an hour costs, --set price.per_hour=0.34, or name other machines with --cluster"});
}

/// Prints to standard error. Long lines are broken where it is a terminal.
void say(const std::string& text) { std::cerr << wrap_lines(text, columns_of_output(STDERR_FILENO, 0)); }

void explain(const PlanRequest& request, const BestPlan& best, const std::string& currency) {
  const RatedPlan& rated = best.finalists.front().rated;
  PlanAnswer known = best.answer;
  if (!best.answer_fits) known.best = rated;
  const RatedPlan& formulas = *known.best;
  if (formulas.objective != rated.objective)
    say(fmt::format("effect of changes on the formula's best plan, {} ({}):\n", formulas.plan.in_short(request.model),
                    amount_in_words(formulas.objective, request.objective, currency)));
  for (const WhatIf& change : what_if(request, known))
    say(if_in_words(change, formulas, request.objective, currency, request.model));
}

/// Lets trial steps choose the plan to print, where they can be made: it becomes the first finalist.
ChosenBy choose_by_trials(const PlanBestOptions& options, Objective objective, PredictSubject& subject,
                          Progress& progress, BestPlan& best) {
  const RunSpec& experiment = subject.experiment;
  const Model& model = subject.model;
  Predictions& predictions = subject.predictions;
  const bool wanted = options.trials && objective == Objective::time;
  if (!wanted ||
      !predictions.use_final_trials(trial_of_finalists(experiment, model, subject.data, interrupted_by_user())))
    return ChosenBy::simulation;
  FinalTrials& trials = *predictions.final_trials();
  const Finalist* chosen = nullptr;
  in_phase(&progress, "trial steps of the fastest plans", [&] { chosen = trials.choose(best.finalists, model); });
  if (!chosen) return ChosenBy::simulation;
  say(trials.take_line(model) + "\n");
  const auto place = best.finalists.begin() + (chosen - best.finalists.data());
  std::rotate(best.finalists.begin(), place, place + 1);
  return ChosenBy::trials;
}

}  // namespace

void add_plan_best(CLI::App& plan, PlanBestOptions& o) {
  auto* verb = plan.add_subcommand("best", "find the best plan and print it as JSON");
  o.experiment.add_common(*verb);
  o.experiment.add_devices(*verb, false, kMaxPlanDevices);
  verb->add_option("--objective", o.objective,
                   "minimise the time of a step, the memory of the fullest device, or the cost")
      ->check(CLI::IsMember({"time", "memory", "cost"}))
      ->capture_default_str();
  verb->add_flag("--explain", o.explain, "print the deciding terms and the runners-up to standard error");
  verb->add_option("--micro-batches", o.micro_batches,
                   "search only plans with these numbers of micro-batches, \"6,12\" (default: powers of two and "
                   "divisors of the batch)")
      ->delimiter(',')
      ->check(whole_number(1));
  verb->add_option("--gap", o.gap, "stop when no plan is better by more than this, \"1%\" (default: 0)");
  verb->add_option("--time-limit", o.time_limit,
                   "end the search after this time and print how far from optimal the plan may be")
      ->capture_default_str();
  verb->add_flag_callback(
      "--no-trials", [&o] { o.trials = false; },
      "print the plan that is predicted to be the fastest, without trial steps of it and others");
  add_cost_source(*verb, o.prediction);
  add_times_flag(*verb, o.prediction);
}

int run_plan_best(const PlanBestOptions& options) {
  const Objective objective = objective_of(options.objective);
  const double tolerance = parse_gap(options.gap), limit = parse_time_limit(options.time_limit, "--time-limit");
  RunSpec asked{options.experiment.read_for_devices()};
  if (objective == Objective::cost) require_price(asked, options.prediction);
  const int devices = asked.devices.front();
  check_described_devices({kExact.name}, "plan best", devices, options.experiment, asked, options.prediction);
  asked = with_batch_on(std::move(asked), devices);
  Progress progress(standard_error_progress());
  if (const std::string batch = batch_in_words(asked); !batch.empty()) say("batch: " + batch + "\n");
  PredictSubject subject(std::move(asked), options.prediction, progress);
  const RunSpec& experiment = subject.experiment;
  const TaskData& data = subject.data;
  const Model& model = subject.model;
  Predictions& predictions = subject.predictions;
  const DeviceChoice choice = predictions.choice(devices);
  const BestPlanOptions search{.objective = objective,
                               .limit = limit,
                               .tolerance = tolerance,
                               .micro_batches = options.micro_batches,
                               .thorough = tolerance == 0};
  BestPlan best;
  in_phase(&progress, "searching for the best plan",
           [&] { predictions.settle([&] { best = find_best_plan(experiment, model, choice, search); }); });
  predictions.keep();
  check_found("plan", best);
  in_phase(&progress, "searching for what would fit",
           [&] { check_fits("plan", best, experiment, model, choice, search); });
  const ChosenBy by = choose_by_trials(options, objective, subject, progress, best);
  if (interrupted_by_user()) {
    say("stopped by the user: no plan is printed\n");
    return 1;
  }
  const Finalist& chosen = best.finalists.front();
  const RatedPlan& rated = chosen.rated;
  Plan plan = rated.plan;
  plan.name = kExact.name;
  say(devices_in_words(plan, by, devices));
  const std::string& currency = predictions.source(best.order).cluster.price.currency;
  if (options.explain) {
    say("on " + predictions.in_words() + ":\n" + explanation(best.finalists, objective, model));
    say("searched: " + best.answer.searched + "; of the best, variants in schedule and sharding are simulated too\n");
  }
  say(proof_in_words(best, by, objective, currency));
  say(memory_in_words(chosen, predictions.source(rated.plan).cluster));
  say(price_in_words(chosen, double(data.train->size()) / double(experiment.batch), predictions));
  if (options.explain) {
    PlanRequest request = plan_request(experiment, model, predictions.source(best.order));
    request.objective = objective;
    request.time_limit = limit;
    request.tolerance = tolerance;
    request.space.micro_batches = options.micro_batches;
    explain(request, best, currency);
  }
  std::cout << plan_text(plan, model);
  return 0;
}

}  // namespace trireme
