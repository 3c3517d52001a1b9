// The registry of strategies: short names for plans. A line in strategies.cpp adds one. Every schedule is also a
// strategy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/plan.h"

namespace trireme {

/// Degrees of a uniform plan: each stage is a (data x tensor) mesh. data * tensor * pipeline is the number of devices.
struct Degrees {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int micro_batches = 0;  ///< 0: 4 per position of a pipeline (fewer if the batch is small), 1 without a pipeline
  int chunks = 1;         ///< stages per worker
  /// Only used to find the position of each stage (Schedule::position_of); it does not become the schedule of the plan.
  /// Null: stage i is on position i mod pipeline.
  const Schedule* schedule = nullptr;
  std::string split = {};  ///< passed to choose_splits as `also`
};

/// What a name means for a cluster of n devices.
struct NamedStrategy {
  std::string name;                ///< the part before a ':' is its family
  int Degrees::*axis = nullptr;    ///< the axis whose degree is n, or n / 2 if there is a second axis
  int Degrees::*second = nullptr;  ///< the axis whose degree is 2; null: one axis only
  bool one_device = false;         ///< true: uses one device, whatever n is
  int least_devices = 1;
  const Schedule* schedule = nullptr;  ///< null: the name does not determine it
  OptimizerSharding sharding = OptimizerSharding::none;
  /// A rule that replaces degrees; no data axis can be added to it. `plan` has all fields except stages and layers.
  /// Null: uniform_plan is used.
  Plan (*make)(Plan plan, const Model& model, const LayerSeconds& seconds, const std::string& where) = nullptr;
};

/// "single"; one name per axis; hybrids; each schedule over a pipeline of all devices; optimizer sharding over a data
/// axis; branches. A strategy may not fit a given model or number of devices.
const std::vector<NamedStrategy>& named_strategies();
std::vector<std::string> known_strategies();
/// Finds a strategy by its name, which keys may follow. Null: unknown.
const NamedStrategy* look_up_strategy(std::string_view strategy);

/// A plan that a planner finds from layer costs (forecast/best_plan.h). parse_strategy accepts its name, without keys;
/// named_plan cannot build it.
struct PlannedStrategy {
  const char* name;
  const char* note = "";  ///< shown to users wherever the name is printed
};
extern const PlannedStrategy kHybridStatic, kAsa, kExact, kPlacement;
std::vector<std::string> planned_strategies();
bool is_planned(std::string_view name);

/// Returns the note of a planned strategy, "asa: a reconstruction, ..."; "" for strategies without a note.
std::string strategy_note(std::string_view name);

/// True if the strategy, with or without keys, uses one device whatever the cluster.
bool is_single(std::string_view strategy);

/// "hybrid:tensor,compression=bf16" -> "hybrid", "1f1b,recompute=all" -> "1f1b"; explicit degrees are unchanged.
std::string family_of(std::string_view strategy);
/// Returns all members of a family that has several, each with the keys that follow it. Any other strategy is returned
/// unchanged.
std::vector<std::string> expand_strategy(std::string_view strategy);

// Lists derived from the registry.
std::string single_strategy();  ///< the strategy for one device
std::string usual_strategy();   ///< default of a run: all devices on the data axis
/// Default of a comparison: families without a schedule or sharding.
std::vector<std::string> compared_strategies();
/// Strategies that a searched plan must beat: those that the step model covers. Strategies without sharding and for few
/// devices are first.
std::vector<std::string> strategies_to_beat();
/// Strategies with optimizer sharding; recompute with data and with a pipeline.
std::vector<std::string> memory_savers();
std::vector<std::string> strategies_of_own_rule();

}  // namespace trireme
