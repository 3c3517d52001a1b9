// Plans that planners find for an experiment by what its layers cost: the best of all, and those that it is compared
// with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "forecast/predict.h"
#include "planner/exact/find_plan.h"

namespace trireme {

/// Costs for these devices, by number, in this order; the reference stays valid.
using SourceOfDevices = std::function<const CostSource&(const std::vector<int>& devices)>;

/// The devices among which a plan is looked for.
struct DeviceChoice {
  SourceOfDevices source_of;
  std::vector<std::vector<int>> orders;  ///< the first is the usual one; a plan has the first so many of one of them
};

/// What a planner is asked for an experiment. Model and source outlive the result.
PlanRequest plan_request(const Experiment& experiment, const Model& model, const CostSource& source);

/// Whether they do the same work on the same devices: names do not count, nor whether one micro-batch is under gpipe or
/// 1f1b.
bool is_same(const Plan& a, Plan b);

/// A plan, what the planner's formulas say of it, and the simulator.
struct Finalist {
  RatedPlan rated;
  double simulated = 0;        ///< seconds of a step
  bool fits_simulated = true;  ///< into the devices' memory, by the simulator's walk
  bool is_measured = false;    ///< the simulator's times rest on what was measured on this machine
};

struct BestPlan {
  PlanAnswer answer;                ///< of the planner
  std::vector<Finalist> finalists;  ///< best first, by the simulator's clock where time is asked for, those that fit
                                    ///< before others; empty where nothing fits
  std::vector<int> order;           ///< of the devices, in which the answer was found
  size_t orders = 1;                ///< that were searched
  bool by_memory = false;  ///< something else was asked for, but all that was found for it is too full when simulated
};

struct BestPlanOptions {
  Objective objective = Objective::time;
  std::optional<double> limit = 60;  ///< seconds of searching
  double tolerance = 0;              ///< PlanRequest::tolerance
};

/// The exact planner's answer, its runners-up, the usual plans (named, hybrid-static, asa) and variants of the best of
/// them (zero-bubble, zero1) on the simulator's clock: the best never simulates slower than any of those that fits. It
/// may use fewer devices than there are. Every order of the devices is a search of its own, with its part of the time;
/// the answer and its finalists are of the best, with the best of the others among the finalists. Plans that are not on
/// the first devices say on which they are (Plan::cluster_devices). Whether the front of the finalists fits is to be
/// asked.
BestPlan find_best_plan(const RunSpec& experiment, const Model& model, const DeviceChoice& devices,
                        const BestPlanOptions& options = {});

/// The finalist to train under (there must be one). Measured times are off by so much that of many plans the quickest
/// predicted one is the one that errors favour most, and the more parts a plan has (stages, micro-batches, changes of
/// the mesh) the more there is to go wrong: of those that fit and are predicted to take at most kDoubt longer than the
/// quickest it is the one of the fewest parts. Of described devices: the quickest. `devices`: that the plan must have,
/// as where workers are processes that have been started; 0: any. Null: there is none of so many.
inline constexpr double kDoubt = 0.2;
const Finalist* to_run(const std::vector<Finalist>& finalists, int devices = 0);

/// The plan of one of planned_strategies() (plan/strategy.h) on at most so many devices, on all of them where workers
/// are processes; all but "exact" take the first order. Errors (user): none fits their memory, or the batch has fewer
/// samples than a plan needs.
Plan planned_plan(const std::string& name, const RunSpec& experiment, const Model& model, const DeviceChoice& devices);

/// Errors (user): the best finalist is too full when simulated. `where` is said first.
void check_fits(const std::string& where, const BestPlan& best, const Model& model);

/// "no plan fits ..." with the bytes missing, where, what holds them, and what would help.
[[noreturn]] void fail_nothing_fits(const std::string& where, const Shortfall& shortfall, const Model& model);

}  // namespace trireme
