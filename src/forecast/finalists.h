// Candidates for the best plan of an experiment, with their values by the planner's formulas and by the simulator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "forecast/predict.h"
#include "planner/exact/find_plan.h"

namespace trireme {

/// Returns costs for these devices, by number, in this order. The reference stays valid.
using SourceOfDevices = std::function<const CostSource&(const std::vector<int>& devices)>;

/// Returns the request to a planner for an experiment. Model and source must outlive the result.
PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source);

/// Returns the memory of the smallest of a cluster's first `devices` devices; 0: none has a limit.
int64_t least_memory(const Cluster& cluster, int devices);

/// True if both plans do the same work on the same devices. Names do not count. With one micro-batch, gpipe and 1f1b
/// are the same.
bool is_same(const Plan& a, Plan b);

/// Counts the parts of a plan (stages, micro-batches, sharding, changes of the mesh). A plan with one mesh for all
/// layers and samples has the fewest.
int parts_of(const Plan& plan);

/// A plan with its values by the planner's formulas and by the simulator.
struct Finalist {
  RatedPlan rated;
  double simulated = 0;        ///< simulated seconds of a step
  int64_t peak_memory = 0;     ///< bytes of tensors on the device that needs most (cost/memory.h)
  int64_t needed_memory = 0;   ///< the most that a device needs, with its allocator: MemoryNeed::peak
  MemoryNeed tightest = {};    ///< of the device that needs the greatest share of its memory
  MemoryNeed lacks_most = {};  ///< of the device that lacks the most bytes; the tightest if all have enough
  bool fits_simulated = true;  ///< true: the program fits into the devices' memory
  std::string misfit = {};     ///< of the tightest: "device 0 needs 14.8 MiB, it has 12 MiB: ..."; empty if it fits
  bool is_measured = false;    ///< true: the simulated times are based on measurements of this machine
};

/// Returns the finalist to train under, for cases without trial steps (FinalTrials). Measured times have errors: of
/// many plans, the one with the fastest prediction is the one with the most favourable errors, and a plan with more
/// parts (stages, micro-batches, changes of the mesh) can differ more from its prediction. So the function returns the
/// plan with the fewest parts among those that fit and whose predicted step is at most kDoubt longer than the fastest.
/// For described devices the errors are the same for all plans, and the limit is kEqual, because a gain that small is
/// not worth a more complicated plan. `devices`: the number that the plan must use, for workers that are processes
/// already started; 0: any. Null: no finalist has this number.
inline constexpr double kDoubt = 0.2, kEqual = 0.01;
const Finalist* to_run(const std::vector<Finalist>& finalists, int devices = 0);

struct BestPlan {
  /// The planner's answer by its formula. Its memory limit is at most a fifth above that of these devices.
  PlanAnswer answer;
  bool answer_fits = true;  ///< true: the program of the answer's plan fits into the devices' memory
  /// Best first: those that fit before others, then by the objective: simulated time, counted memory, or money. Empty
  /// if there is no plan, or none was found in time.
  std::vector<Finalist> finalists;
  std::vector<int> order;  ///< the order of the devices in which the answer was found
  size_t orders = 1;       ///< number of orders searched
};

struct BestPlanOptions {
  Objective objective = Objective::time;
  std::optional<double> limit = 60;     ///< seconds for the search
  double tolerance = 0;                 ///< PlanRequest::tolerance
  std::vector<int> micro_batches = {};  ///< numbers of micro-batches to search; empty: those of PlanSpace
  /// False: a faster search, for searches during a run and for clusters of hundreds of devices. It begins with the
  /// devices' memory as limit. It ends when a plan fits and, by the formula, no plan of the search is faster by more
  /// than `tolerance`; with tolerance 0, when any plan fits. If no plan fits, it continues as if `thorough` were true.
  /// After a search that is not thorough, devices with more memory may get a slower plan.
  bool thorough = true;
};

}  // namespace trireme
