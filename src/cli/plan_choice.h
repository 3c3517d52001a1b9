// What a plan's name on the command line means, and how many devices it is for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "forecast/predictions.h"
#include "trireme/plan.h"

namespace trireme {

/// Throws a user error, naming `where` (a flag or key), for what is neither a strategy (plan/strategy.h has the syntax)
/// nor a file that is there.
void check_plan_name(const std::string& name, const std::string& where);

/// Errors (user): an update policy, where a plan is wanted.
void refuse_policy(const std::string& name, const std::string& where);

/// The product of degrees such as "data=2,tensor=2"; nullopt for any other name. Errors (user): more than a plan can
/// have.
std::optional<int> devices_of_degrees(const std::string& name);

/// Throws the error of a valid plan whose program cannot run as the experiment says, naming `where`: a schedule that
/// does not fit its stages and micro-batches, a deadlock.
void check_compiles(const Plan& plan, const RunSpec& experiment, const Model& model, const std::string& where);

/// Throws a user error, naming `where`, for more workers than a process can have. Plans may be for more.
void check_runs_here(int devices, const std::string& where);

/// The plan of a file, named after the file: its own name may still be that of the plan it was edited from. It is valid
/// and its program passes the checker, or else a user error names the file.
Plan load_plan_file(const std::string& file, const RunSpec& experiment, const Model& model);

/// The plan called `name`, on `devices` where --devices gave a number; else on as many as the plan says (a file,
/// degrees), else on the first number of the experiment's. `to_run`: errors (user) also for more devices than a process
/// can have.
Plan choose_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                 const Model& model, bool to_run = true);

/// Likewise, and a planner's plan (plan/strategy.h) by what layers cost on this machine or a described one.
Plan choose_or_find_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, const TaskData& data, const CostSourceOptions& costs, bool to_run);

/// The plan's JSON laid out for people who edit it: what it is first, one layer a line.
std::string plan_text(const Plan& plan, const Model& model);

}  // namespace trireme
