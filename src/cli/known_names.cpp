#include "cli/known_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace

std::string known_names() {
  Rows models, optimizers, schedules, policies;
  for (const std::string& name : model_names()) models.emplace_back(name, model_description(name));
  for (const OptimizerKind* kind : optimizer_kinds()) optimizers.emplace_back(kind->name, kind->description);
  for (const Schedule& schedule : known_schedules()) schedules.emplace_back(schedule.name, schedule.description);
  for (const PolicyKind* policy : update_policies()) policies.emplace_back(policy->name, policy->description);
  return section("Models (model, or a TorchScript file)", models) + "\n" +
         section("Optimizers (optimizer.kind)", optimizers) + "\n" + section("Schedules (of a plan)", schedules) +
         "\n" + section("Update policies (strategies too; docs/updates.md)", policies) +
         "\nData sets: trireme data list. Backends: trireme doctor.";
}

}  // namespace trireme
