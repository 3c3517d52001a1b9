// Plans that planners find for an experiment from layer costs: the best plan, and the plans with which it is compared.
#pragma once

#include <string>
#include <vector>

#include "forecast/finalists.h"

namespace trireme {

class FinalTrials;

/// The devices for which a plan is searched.
struct DeviceChoice {
  SourceOfDevices source_of;
  /// Orders of the devices; the first is the usual one. A plan uses the first devices of one order.
  std::vector<std::vector<int>> orders;
};

/// Finds the best plan. Candidates are the exact planner's answers under several memory limits (plan_search.h), their
/// runners-up, the usual plans (named, hybrid-static, asa), and variants of the best of these (zero-bubble, zero1). All
/// are simulated and their memory is counted; the best never simulates slower than any candidate that fits. Devices
/// with more memory never get a slower plan, except: the time limit ends a search; a plan simulates faster than the
/// formula says by more than kFormulaError (plan_search.h); unequal devices grow by different factors; or the search is
/// not thorough. The best may use fewer devices than there are. Each order of the devices is a separate search with its
/// part of the time. The result has the answer and the finalists of the best order. Each other order adds one finalist:
/// its best or, if none fits, the one that lacks least memory. Plans that do not use the first devices name theirs
/// (Plan::cluster_devices). The caller must check whether there is a plan (check_found) and whether the first finalist
/// fits (check_fits).
BestPlan find_best_plan(const RunSpec& experiment, const Model& model, const DeviceChoice& devices,
                        const BestPlanOptions& options = {});

struct PlannedPlan {
  Plan plan;
  std::string note = {};  ///< a line for the user; may be empty
};

/// Returns the plan of "hybrid-static", "asa" or "placement" on all of these devices, in their first order. Errors
/// (user): no plan fits into memory; the batch has fewer samples than a plan needs; the best placement does not use all
/// devices of a replica.
PlannedPlan planned_plan(const std::string& name, const RunSpec& experiment, const Model& model,
                         const DeviceChoice& devices);

/// Returns the plan of "placement" on all devices of `source` with this many devices for each replica; nullopt: there
/// is none (the cases are those of placed_plan in planner/placement/placed_plans.h).
std::optional<Plan> placement_of_replicas(const RunSpec& experiment, const Model& model, const CostSource& source,
                                          int devices);

/// Searches for the strategy "exact". Errors (user): no plan was found, or none fits into memory.
BestPlan search_exact(const RunSpec& experiment, const Model& model, const DeviceChoice& devices);

/// Returns the plan of the strategy "exact" from its search on `devices` devices. `trials` choose among the finalists.
/// If it is null or cannot choose, to_run() does. Errors (user): workers are processes, and no plan uses all of them.
Plan exact_plan(const BestPlan& best, const RunSpec& experiment, const Model& model, int devices, FinalTrials* trials);

/// Errors (user), beginning with `where`: there is no plan, or none was found in time.
void check_found(const std::string& where, const BestPlan& best);

/// Errors (user), beginning with `where`: no finalist fits into the devices' memory. The message is about the plan
/// whose tightest device needs the least share of its memory: the bytes which that device lacks, what its memory holds,
/// and what would fit: a smaller batch, more memory. The arguments are those of the search; the time limit is for the
/// search for a batch.
void check_fits(const std::string& where, const BestPlan& best, const RunSpec& experiment, const Model& model,
                const DeviceChoice& devices, const BestPlanOptions& options = {});

}  // namespace trireme
