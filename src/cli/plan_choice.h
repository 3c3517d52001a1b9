// Finds the plan that a name on the command line denotes, and its number of devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "forecast/predictions.h"
#include "trireme/plan.h"

namespace trireme {

class Progress;

/// Throws a user error that names `where` (a flag or key) if `name` is neither a strategy (plan/strategy.h has the
/// syntax) nor an existing file.
void check_plan_name(const std::string& name, const std::string& where);

/// Errors (user): `name` is an update policy, but a plan is required.
void refuse_policy(const std::string& name, const std::string& where);

/// Returns the product of degrees such as "data=2,tensor=2"; nullopt for any other name. Errors (user): more devices
/// than a plan can have.
std::optional<int> devices_of_degrees(const std::string& name);

/// Throws an error that names `where` if the program of a valid plan cannot run under the experiment: a schedule that
/// does not fit its stages and micro-batches, or a deadlock. `executed`: false leaves out the search for deadlocks,
/// which executes the lists of all ranks.
void check_compiles(const Plan& plan, const RunSpec& experiment, const Model& model, const std::string& where,
                    bool executed = true);

/// Throws a user error that names `where` for more workers than a process can have. Plans may have more.
void check_runs_here(int devices, const std::string& where);

/// Returns the plan of a file, named after the file, because its own name may still be that of the plan from which it
/// was edited. A user error names the file if the plan is invalid or its program does not pass the checker.
Plan load_plan_file(const std::string& file, const RunSpec& experiment, const Model& model);

/// Returns the plan called `name`: on `devices` if --devices gave a number; otherwise on as many as the plan says (a
/// file, degrees); otherwise on the experiment's first number. `to_run`: errors (user) also for more devices than a
/// process can have.
Plan choose_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                 const Model& model, bool to_run = true);

/// For a plan that is about to run.
struct PlanTrials {
  MeasureStep measure_step;      ///< of the plans among which trial steps choose (FinalTrials)
  Progress* progress = nullptr;  ///< shows what the trials took; null: not shown
};

/// The same, and also a planner's plan (plan/strategy.h), found by the costs of layers on this machine or on a
/// described one. `trials`: the plan is to run here, and trial steps choose that of "exact"; null: it does not run, and
/// costs that are named also balance the stages of strategies, for the devices that they describe.
Plan choose_or_find_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, const TaskData& data, const CostSourceOptions& costs,
                         const PlanTrials* trials = nullptr);

/// Returns the plan's JSON, formatted for people who edit it: the general keys first, one layer per line.
std::string plan_text(const Plan& plan, const Model& model);

}  // namespace trireme
