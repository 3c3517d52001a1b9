#include "cli/explain_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/units.h"
#include "cli/text_table.h"
#include "cost/money.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr size_t kLongestPlan = 56;  // characters, in a table
constexpr size_t kMostShown = 16;    // finalists
constexpr double kSame = 1e-9;       // relative
constexpr double kEqual = 1e-4;      // relative, of simulated times: smaller differences decide nothing

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", std::max(0.0, 100 * part / whole)) : "";
}

double exchange(const Prediction& p) { return p.communication + p.reduction; }

/// Leaves out the middle of a long text: plans differ in their degrees, at the beginning, and their settings, at the
/// end.
std::string shortened(const std::string& text) {
  if (text.size() <= kLongestPlan) return text;
  const std::string end = text.substr(std::min(text.size(), text.find(", ", text.size() - kLongestPlan / 2)));
  return text.substr(0, kLongestPlan - 3 - end.size()) + "..." + end;
}

/// "2 of 3"; empty if there is one stage.
std::string deciding_stage(const RatedPlan& rated) {
  const size_t stages = rated.plan.stages.size();
  return stages > 1 ? fmt::format("{} of {}", rated.prediction.deciding_stage + 1, stages) : "";
}

std::string table_of(const std::vector<Finalist>& finalists, const Model& model) {
  std::vector<std::vector<std::string>> rows;
  for (const Finalist& c : finalists) {
    const Prediction& p = c.rated.prediction;
    rows.push_back({fmt::format("{}", rows.size() + 1), shortened(c.rated.plan.in_short(model)),
                    format_seconds(c.simulated), format_seconds(p.seconds), deciding_stage(c.rated),
                    share(p.compute, p.seconds), share(exchange(p), p.seconds), share(p.bubble, p.seconds),
                    share(p.update, p.seconds), format_bytes(c.peak_memory)});
  }
  return text_table(
      {"", "plan", "simulated", "by formula", "slowest stage", "computing", "exchange", "bubble", "update", "memory"},
      rows, {0, 2, 3, 4, 5, 6, 7, 8, 9}, columns_of_output(STDERR_FILENO));
}

/// Returns the first finalists without those that look the same as an earlier one: plans with the same description and
/// times, split in another way.
std::vector<Finalist> each_once(const std::vector<Finalist>& finalists, const Model& model) {
  std::vector<Finalist> kept;
  std::set<std::string> seen;
  for (const Finalist& c : finalists) {
    const std::string looks = fmt::format("{}: {}, {}", c.rated.plan.in_short(model), format_seconds(c.simulated),
                                          format_seconds(c.rated.prediction.seconds));
    if (kept.size() < kMostShown && seen.insert(looks).second) kept.push_back(c);
  }
  return kept;
}

/// Describes the stage of a pipeline whose terms add up to the step's time.
std::string stage_in_words(const RatedPlan& rated, const Model& model) {
  if (rated.plan.stages.size() < 2) return "";
  const int stage = rated.prediction.deciding_stage;
  const std::vector<int>& workers = rated.plan.stages[size_t(stage)];
  std::string first, last;
  for (NodeId node = model.input_count(); node < NodeId(model.nodes().size()); ++node) {
    if (rated.plan.layers[size_t(node)].stage != stage) continue;
    if (first.empty()) first = model.node(node).name;
    last = model.node(node).name;
  }
  return fmt::format("1: stage {} of {} decides: layers {} to {}, on {} {}\n", stage + 1, rated.plan.stages.size(),
                     first, last, workers.size() == 1 ? "worker" : "workers",
                     workers.size() == 1 ? fmt::format("{}", workers.front())
                                         : fmt::format("{} to {}", workers.front(), workers.back()));
}

/// A term of a sum, and how much larger it is in another plan.
struct Term {
  const char* name;
  double more;
};

const Term& largest(std::span<const Term> terms) {
  return *std::max_element(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.more < b.more; });
}

std::string behind_in_seconds(const Finalist& first, const Finalist& other) {
  const Prediction &a = first.rated.prediction, &b = other.rated.prediction;
  const Term terms[] = {{"computing", b.compute - a.compute},
                        {"exchange", exchange(b) - exchange(a)},
                        {"bubble", b.bubble - a.bubble},
                        {"update", b.update - a.update}};
  const double more = b.seconds - a.seconds, simulated = other.simulated - first.simulated;
  if (more > kSame * a.seconds) {
    const Term& decided = largest(terms);
    std::string text = fmt::format("{} decided: {} more, of {} in all by the formula", decided.name,
                                   format_seconds(decided.more), format_seconds(more));
    if (simulated <= kEqual * first.simulated) text += "; in the simulation it is not slower";
    return text;
  }
  if (simulated <= kEqual * first.simulated) return "as good";
  return fmt::format("{} by the formula, but {} slower in the simulation, which includes what the formula leaves out",
                     more < -kSame * a.seconds ? format_seconds(-more) + " faster" : "as fast",
                     format_seconds(simulated));
}

const DeviceMemory& fullest_of(const Prediction& p) {
  return *std::max_element(p.memory.begin(), p.memory.end(),
                           [](const DeviceMemory& a, const DeviceMemory& b) { return a.total() < b.total(); });
}

std::string behind_in_bytes(const Finalist& first, const Finalist& other) {
  const DeviceMemory &a = fullest_of(first.rated.prediction), &b = fullest_of(other.rated.prediction);
  const Term terms[] = {{"weights", b.weights - a.weights},
                        {"gradients", b.gradients - a.gradients},
                        {"optimizer state", b.optimizer - a.optimizer},
                        {"activations", b.activations - a.activations},
                        {"workspace", b.workspace - a.workspace}};
  const int64_t counted = other.peak_memory - first.peak_memory;
  if (counted <= 0) return "no more memory; " + behind_in_seconds(first, other);
  const double more = b.total() - a.total();
  if (more <= kSame * a.total())
    return fmt::format("memory decided: its program needs {} more, which the formula leaves out",
                       format_bytes(counted));
  const Term& decided = largest(terms);
  return fmt::format("memory decided: {} of {} more by the formula; its program needs {} more",
                     format_bytes(int64_t(decided.more)), decided.name, format_bytes(counted));
}

std::string behind_in_money(const Finalist& first, const Finalist& other) {
  const Prediction &a = first.rated.prediction, &b = other.rated.prediction;
  const double per_second = b.money / b.seconds / (a.money / a.seconds);
  if (per_second <= 1 + kSame) return behind_in_seconds(first, other);
  return fmt::format(
      "price decided: its machines cost {:.3g} times as much an hour, its step takes {:.3g} times as long", per_second,
      b.seconds / a.seconds);
}

std::string behind(const Finalist& first, const Finalist& other, Objective objective) {
  if (!other.fits_simulated) return "memory decided: " + other.misfit;
  if (objective == Objective::memory) return behind_in_bytes(first, other);
  return objective == Objective::cost ? behind_in_money(first, other) : behind_in_seconds(first, other);
}

}  // namespace

std::string amount_in_words(double value, Objective objective, const std::string& currency) {
  if (objective == Objective::memory) return format_bytes(int64_t(value));
  return objective == Objective::cost ? format_money(Money{value, currency}) + " a step" : format_seconds(value);
}

std::string explanation(const std::vector<Finalist>& all, Objective objective, const Model& model) {
  const std::vector<Finalist> finalists = each_once(all, model);
  std::string text = table_of(finalists, model) + stage_in_words(finalists.front().rated, model);
  for (size_t i = 1; i < finalists.size(); ++i)
    text += fmt::format("{}: {}\n", i + 1, behind(finalists.front(), finalists[i], objective));
  return text;
}

std::string if_in_words(const WhatIf& what_if, const RatedPlan& best, Objective objective, const std::string& currency,
                        const Model& model) {
  const std::optional<RatedPlan>& other = what_if.answer.best;
  if (!other) return fmt::format("if {}: {}\n", what_if.change, what_if.answer.proof);
  const auto amount = [&](double value) { return amount_in_words(value, objective, currency); };
  std::string doubt;
  constexpr double kProven = 1e-3;
  if (what_if.answer.gap() > kProven) doubt = fmt::format("; the gap is at most {:.2g} %", 100 * what_if.answer.gap());
  if (what_if.answer.out_of_time) doubt += "; the time limit ended the search";
  if (what_if.tightens && other->objective < best.objective * (1 - kSame))
    return fmt::format(
        "if {}: {} by the formula, with {}; this plan is better even without the change, but the search above did not "
        "find it\n",
        what_if.change, amount(other->objective), other->plan.in_short(model));
  return fmt::format("if {}: {} by the formula instead of {} ({:+.1f} %), with {}{}\n", what_if.change,
                     amount(other->objective), amount(best.objective), 100 * (other->objective / best.objective - 1),
                     is_same(other->plan, best.plan) ? "the same plan" : other->plan.in_short(model), doubt);
}

}  // namespace trireme
