#include "plan/strategies.h"

#include <algorithm>

#include "plan/branches.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

std::string_view first_of(std::string_view strategy) { return strategy.substr(0, strategy.find(',')); }

const std::vector<const PlannedStrategy*>& planned() {
  static const std::vector<const PlannedStrategy*> all{&kHybridStatic, &kAsa, &kExact, &kPlacement};
  return all;
}

const std::string kRecompute = ",recompute=all";

/// Returns the names of the strategies for which `has` is true.
template <class Has>
std::vector<std::string> names_with(Has&& has) {
  std::vector<std::string> names;
  for (const NamedStrategy& named : named_strategies())
    if (has(named)) names.push_back(named.name);
  return names;
}

}  // namespace

constinit const PlannedStrategy kHybridStatic = {"hybrid-static"};
constinit const PlannedStrategy kAsa = {
    "asa", "asa: a reconstruction of a published strategy, not its authors' program; see docs/planner.md"};
constinit const PlannedStrategy kExact = {"exact"};
constinit const PlannedStrategy kPlacement = {"placement"};

const std::vector<NamedStrategy>& named_strategies() {
  static const std::vector<NamedStrategy> all = [] {
    std::vector<NamedStrategy> names{
        {.name = "single", .one_device = true},
        {.name = "data", .axis = &Degrees::data},
        {.name = "tensor", .axis = &Degrees::tensor},
        {.name = "pipeline", .axis = &Degrees::pipeline},
        {.name = "hybrid:tensor", .axis = &Degrees::data, .second = &Degrees::tensor, .least_devices = 4},
        {.name = "hybrid:pipeline", .axis = &Degrees::data, .second = &Degrees::pipeline, .least_devices = 4},
    };
    for (const Schedule& schedule : known_schedules())
      names.push_back({.name = std::string(schedule.name), .axis = &Degrees::pipeline, .schedule = &schedule});
    for (const OptimizerSharding sharding : kOptimizerShardings)
      if (sharding != OptimizerSharding::none)
        names.push_back({.name = name_of(sharding), .axis = &Degrees::data, .sharding = sharding});
    names.push_back({.name = "branches", .make = branch_plan});
    return names;
  }();
  return all;
}

std::vector<std::string> known_strategies() {
  return names_with([](const NamedStrategy&) { return true; });
}

const NamedStrategy* look_up_strategy(std::string_view strategy) {
  const auto& all = named_strategies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const NamedStrategy& named) { return named.name == first_of(strategy); });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> planned_strategies() {
  std::vector<std::string> names;
  for (const PlannedStrategy* strategy : planned()) names.emplace_back(strategy->name);
  return names;
}

bool is_planned(std::string_view name) {
  return std::any_of(planned().begin(), planned().end(),
                     [&](const PlannedStrategy* strategy) { return name == strategy->name; });
}

std::string strategy_note(std::string_view name) {
  for (const PlannedStrategy* strategy : planned())
    if (name == strategy->name) return strategy->note;
  return "";
}

bool is_single(std::string_view strategy) {
  const NamedStrategy* named = look_up_strategy(strategy);
  return named && named->one_device;
}

std::string family_of(std::string_view strategy) {
  const std::string_view first = first_of(strategy);
  if (first.find('=') != first.npos) return std::string(strategy);
  return std::string(first.substr(0, first.find(':')));
}

std::vector<std::string> expand_strategy(std::string_view strategy) {
  const std::string family(first_of(strategy));
  const std::string keys(strategy.substr(family.size()));
  std::vector<std::string> forms =
      names_with([&](const NamedStrategy& named) { return named.name.starts_with(family + ":"); });
  if (forms.empty()) return {std::string(strategy)};
  for (std::string& form : forms) form += keys;
  return forms;
}

std::string single_strategy() {
  return names_with([](const NamedStrategy& named) { return named.one_device; }).front();
}

std::string usual_strategy() {
  return names_with([](const NamedStrategy& named) { return named.axis == &Degrees::data; }).front();
}

std::vector<std::string> compared_strategies() {
  std::vector<std::string> families;
  for (const NamedStrategy& named : named_strategies()) {
    const bool is_plain = !named.schedule && named.sharding == OptimizerSharding::none && !named.make;
    if (std::string family = family_of(named.name); is_plain && (families.empty() || families.back() != family))
      families.push_back(std::move(family));
  }
  return families;
}

std::vector<std::string> strategies_to_beat() {
  std::vector<const NamedStrategy*> chosen;
  for (const NamedStrategy& named : named_strategies()) {
    // the schedule adds nothing to strategy "pipeline": it is the usual one, or the step model does not cover it
    const bool adds_nothing = named.schedule && (!named.schedule->step_rule || named.schedule == &usual_schedule());
    if (!named.make && !adds_nothing) chosen.push_back(&named);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const NamedStrategy* a, const NamedStrategy* b) {
    return std::pair(a->sharding, a->least_devices) < std::pair(b->sharding, b->least_devices);
  });
  std::vector<std::string> names;
  for (const NamedStrategy* named : chosen) names.push_back(named->name);
  names.push_back(names.back() + kRecompute);
  return names;
}

std::vector<std::string> memory_savers() {
  std::vector<std::string> names =
      names_with([](const NamedStrategy& named) { return named.sharding != OptimizerSharding::none; });
  names.push_back(usual_strategy() + kRecompute);
  names.push_back(std::string(lean_schedule().name) + kRecompute);
  return names;
}

std::vector<std::string> strategies_of_own_rule() {
  return names_with([](const NamedStrategy& named) { return named.make != nullptr; });
}

}  // namespace trireme
