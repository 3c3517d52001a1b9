#include "cli/known_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/strategy.h"
#include "runtime/optimizers/optimizer_kind.h"
#include "schedule/kinds.h"
#include "update/registry.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string section(std::string_view title, const Rows& rows) {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.first.size());
  std::string text = fmt::format("{}:\n", title);
  for (const auto& [name, description] : rows) text += fmt::format("  {:<{}}  {}\n", name, longest, description);
  return text;
}

std::string strategies_text() {
  return fmt::format("Strategies (--plan, --strategies; docs/plans.md):\nA plan file, or {}.\n", strategy_syntax());
}

std::string models_text() {
  Rows rows;
  for (const std::string& name : model_names()) rows.emplace_back(name, model_description(name));
  return section("Models (model, or a TorchScript file)", rows);
}

std::string optimizers_text() {
  Rows rows;
  for (const OptimizerKind* kind : optimizer_kinds()) rows.emplace_back(kind->name, kind->description);
  return section("Optimizers (optimizer.kind)", rows);
}

std::string schedules_text() {
  Rows rows;
  for (const Schedule& schedule : known_schedules()) rows.emplace_back(schedule.name, schedule.description);
  return section("Schedules (of a plan)", rows);
}

std::string policies_text() {
  Rows rows;
  for (const PolicyKind* policy : update_policies()) rows.emplace_back(policy->name, policy->description);
  return section("Update policies (strategies too; docs/updates.md)", rows);
}

struct Topic {
  const char* name;
  std::string (*text)();
};
const Topic kTopics[] = {{"strategies", strategies_text},
                         {"models", models_text},
                         {"optimizers", optimizers_text},
                         {"schedules", schedules_text},
                         {"policies", policies_text}};

}  // namespace

const std::vector<std::string>& name_topics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Topic& topic : kTopics) all.emplace_back(topic.name);
    return all;
  }();
  return names;
}

std::string known_names(const std::string& topic) {
  for (const Topic& known : kTopics)
    if (topic == known.name) return known.text();
  return "";
}

std::string known_names() {
  std::string text;
  for (const Topic& topic : kTopics) text += topic.text() + "\n";
  return text + "Data sets: trireme data list. Backends: trireme doctor.";
}

}  // namespace trireme
