#include "forecast/plan_variants.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "forecast/finalists.h"
#include "plan/named.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

bool has_equal_layers(const Plan& plan, const Model& model) {
  const LayerPlan& last = plan.layers.back();
  return std::all_of(plan.layers.begin() + model.input_count(), plan.layers.end(),
                     [&](const LayerPlan& layer) { return layer.data == last.data && layer.tensor == last.tensor; });
}

/// True if all stages have equally many workers, in turn, and all layers the same degrees.
bool has_equal_stages(const Plan& plan, const Model& model) {
  const size_t size = plan.stages.front().size();
  return plan.speeds.empty() && plan.positions() == int(plan.stages.size()) &&
         std::all_of(plan.stages.begin(), plan.stages.end(), [&](const auto& stage) { return stage.size() == size; }) &&
         has_equal_layers(plan, model);
}

/// Returns the size of sharding groups that do not cross nodes of `per_node` devices; 0: there is none.
int group_inside_nodes(const Plan& plan, const Model& model, int per_node) {
  if (!has_equal_layers(plan, model)) return 0;
  const LayerPlan& layer = plan.layers.back();
  const int group = per_node / layer.tensor;
  return group > 1 && per_node % layer.tensor == 0 && layer.data > group && layer.data % group == 0 ? group : 0;
}

/// Returns the plan with the stages of a v-shaped schedule: each worker has one stage of the first half and one of the
/// second half, in reverse order. nullopt if the plan has no such variant.
std::optional<Plan> v_shaped_variant(const Plan& plan, const Model& model, const VariantFacts& facts) {
  const size_t stages = 2 * plan.stages.size();
  if (!has_equal_stages(plan, model) || facts.cuts.size() < stages) return {};
  std::vector<double> seconds(facts.cuts.size(), 0);
  std::vector<size_t> unit_of(model.nodes().size(), 0);
  for (size_t unit = 0, id = size_t(model.input_count()); id < unit_of.size(); ++id) {
    if (unit + 1 < facts.cuts.size() && NodeId(id) == facts.cuts[unit + 1]) ++unit;
    unit_of[id] = unit;
    seconds[unit] += facts.seconds[id];
  }
  Plan variant = plan;
  variant.stages.insert(variant.stages.end(), plan.stages.rbegin(), plan.stages.rend());
  const std::vector<int> stage_of = balance(seconds, int(stages));
  for (auto id = size_t(model.input_count()); id < unit_of.size(); ++id)
    variant.layers[id].stage = stage_of[unit_of[id]];
  return variant;
}

}  // namespace

std::vector<Plan> variants_of(const Plan& plan, const Model& model, const VariantFacts& facts) {
  std::vector<Plan> scheduled{plan};
  if (plan.stages.size() > 1 && find_schedule(plan.schedule, plan.name).is_plain())
    for (const Schedule& schedule : known_schedules()) {
      if (!schedule.step_rule || !schedule.splits_backward || (schedule.chunked && !schedule.v_shaped)) continue;
      std::optional<Plan> variant = schedule.v_shaped ? v_shaped_variant(plan, model, facts) : std::optional(plan);
      if (!variant) continue;
      variant->schedule = schedule.name;
      scheduled.push_back(*std::move(variant));
    }
  std::vector<Plan> variants;
  const int group = group_inside_nodes(plan, model, facts.per_node);
  for (const Plan& one : scheduled)
    for (const OptimizerSharding sharding : {plan.optimizer_sharding, OptimizerSharding::zero1}) {
      Plan variant = one;
      variant.optimizer_sharding = sharding;
      if (sharding != plan.optimizer_sharding && !plan.divides_batch()) continue;
      if (!is_same(variant, plan)) variants.push_back(variant);
      if (sharding == OptimizerSharding::none || group == 0) continue;
      variant.sharding_group = group;
      variants.push_back(std::move(variant));
    }
  return variants;
}

}  // namespace trireme
