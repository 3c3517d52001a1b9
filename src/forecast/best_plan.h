// Plans that planners find for an experiment from layer costs: the best plan, and the plans with which it is compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "forecast/predict.h"
#include "planner/exact/find_plan.h"

namespace trireme {

/// Returns costs for these devices, by number, in this order. The reference stays valid.
using SourceOfDevices = std::function<const CostSource&(const std::vector<int>& devices)>;

/// The devices for which a plan is searched.
struct DeviceChoice {
  SourceOfDevices source_of;
  /// Orders of the devices; the first is the usual one. A plan uses the first devices of one order.
  std::vector<std::vector<int>> orders;
};

/// Returns the request to a planner for an experiment. Model and source must outlive the result.
PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source);

/// True if both plans do the same work on the same devices. Names do not count. With one micro-batch, gpipe and 1f1b
/// are the same.
bool is_same(const Plan& a, Plan b);

/// A plan with its values by the planner's formulas and by the simulator.
struct Finalist {
  RatedPlan rated;
  double simulated = 0;        ///< simulated seconds of a step
  bool fits_simulated = true;  ///< true: fits into the devices' memory, by the simulator's dry run
  bool is_measured = false;    ///< true: the simulated times are based on measurements of this machine
};

struct BestPlan {
  PlanAnswer answer;  ///< the planner's answer
  /// Best first: those that fit before others, then by simulated time if the objective is time. Empty if nothing fits.
  std::vector<Finalist> finalists;
  std::vector<int> order;  ///< the order of the devices in which the answer was found
  size_t orders = 1;       ///< number of orders searched
  /// True if the objective was another one, but every plan found for it is too large when simulated. The answer is then
  /// for least memory.
  bool by_memory = false;
};

struct BestPlanOptions {
  Objective objective = Objective::time;
  std::optional<double> limit = 60;  ///< seconds for the search
  double tolerance = 0;              ///< PlanRequest::tolerance
};

/// Finds the best plan. Candidates are the exact planner's answer, its runners-up, the usual plans (named,
/// hybrid-static, asa), and variants of the best of these (zero-bubble, zero1). All are simulated; the best never
/// simulates slower than any candidate that fits. The best may use fewer devices than there are. Each order of the
/// devices is a separate search with its part of the time. The answer and its finalists are those of the best order,
/// plus the best finalist of each other order. Plans that do not use the first devices name theirs
/// (Plan::cluster_devices). The caller must check whether the first finalist fits (check_fits).
BestPlan find_best_plan(const RunSpec& experiment, const Model& model, const DeviceChoice& devices,
                        const BestPlanOptions& options = {});

/// Returns the finalist to train under. Measured times have errors: the plan that is predicted to be the fastest of
/// many is the one that the errors favour most, and a plan with more parts (stages, micro-batches, changes of the mesh)
/// can differ more from its prediction. So, among the plans that fit and are predicted to take at most kDoubt longer
/// than the fastest, the plan with the fewest parts is returned. For described devices: the fastest plan. `devices`:
/// the number that the plan must use, for workers that are processes already started; 0: any. Null: no finalist has
/// this number.
inline constexpr double kDoubt = 0.2;
const Finalist* to_run(const std::vector<Finalist>& finalists, int devices = 0);

/// Returns the plan of one of planned_strategies() (plan/strategies.h) on at most these devices, or on all of them if
/// workers are processes. All strategies except "exact" use the first order. Errors (user): no plan fits into memory;
/// the batch has fewer samples than a plan needs.
Plan planned_plan(const std::string& name, const RunSpec& experiment, const Model& model, const DeviceChoice& devices);

/// Errors (user), beginning with `where`: the best finalist does not fit into memory when simulated.
void check_fits(const std::string& where, const BestPlan& best, const Model& model);

/// Throws a user error, "no plan fits ...", with the bytes missing, where, what the memory holds, and what would help.
[[noreturn]] void fail_nothing_fits(const std::string& where, const Shortfall& shortfall, const Model& model);

}  // namespace trireme
