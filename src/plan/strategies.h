// The registry of strategies: short names for plans. A line in strategies.cpp adds one; every schedule is one too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/plan.h"

namespace trireme {

/// Degrees of a uniform plan: every stage a (data x tensor) mesh. data * tensor * pipeline is the number of devices.
struct Degrees {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int micro_batches = 0;   ///< 0: 4 per position of a pipeline (fewer where the batch is small), 1 without one
  int chunks = 1;          ///< stages per worker: stage i lies on position i mod pipeline
  std::string split = {};  ///< as choose_splits' `also`
};

/// What a name means for a cluster of n devices.
struct NamedStrategy {
  std::string name;                ///< what stands before a ':' is its family
  int Degrees::*axis = nullptr;    ///< whose degree is n ...
  int Degrees::*second = nullptr;  ///< ... or n / 2, where this one's is 2; null: one axis
  bool one_device = false;         ///< whatever n
  int least_devices = 1;
  const Schedule* schedule = nullptr;  ///< null: the name does not decide
  OptimizerSharding sharding = OptimizerSharding::none;
  /// A rule of its own in place of degrees; no data axis can be added to it. `plan` has all but stages and layers.
  /// Null: uniform_plan.
  Plan (*make)(Plan plan, const Model& model, const LayerSeconds& seconds, const std::string& where) = nullptr;
};

/// "single"; a name per axis; hybrids; every schedule over a pipeline of all devices; optimizer sharding over data;
/// branches. Not every one suits every model and number of devices.
const std::vector<NamedStrategy>& named_strategies();
std::vector<std::string> known_strategies();
/// By its name, keys may follow; null: unknown.
const NamedStrategy* look_up_strategy(std::string_view strategy);

/// Plans that a planner finds by what layers cost (forecast/best_plan.h). parse_strategy takes their names, without
/// keys; named_plan cannot make them.
struct PlannedStrategy {
  const char* name;
  const char* note = "";  ///< what people are told wherever the name is printed
};
extern const PlannedStrategy kHybridStatic, kAsa, kExact;
std::vector<std::string> planned_strategies();
bool is_planned(std::string_view name);

/// Of a planned one: "asa: a reconstruction, ..."; "" for all that are what they are called.
std::string strategy_note(std::string_view name);

/// Whether the name, perhaps with keys after it, is for one device whatever the cluster.
bool is_single(std::string_view strategy);

/// "hybrid:tensor,compression=bf16" -> "hybrid", "1f1b,recompute=all" -> "1f1b"; spelled-out degrees stay as they are.
std::string family_of(std::string_view strategy);
/// A family of several, also with keys after it, stands for all of them; everything else for itself.
std::vector<std::string> expand_strategy(std::string_view strategy);

// Lists that follow from the registry.
std::string single_strategy();  ///< the one for one device
std::string usual_strategy();   ///< of a run that names none: all devices over the data axis
std::vector<std::string>
compared_strategies();  ///< of a comparison that names none: families without a schedule or sharding
std::vector<std::string>
strategies_to_beat();  ///< by a plan that is searched for: what the step model knows, on few devices first
std::vector<std::string> memory_savers();  ///< optimizer sharding; recompute with data and with a pipeline
std::vector<std::string> strategies_of_own_rule();

}  // namespace trireme
