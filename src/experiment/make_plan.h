// The plans that an experiment's strategies name, and plans from files.
#pragma once

#include <string>

#include "experiment/run_spec.h"
#include "trireme/plan.h"

namespace trireme {

/// True if `name` is a file and not a named strategy: a file called "data" does not hide the strategy.
bool is_plan_file(const std::string& name);

/// Returns the plan called `name` ("data", "hybrid:pipeline", "data=2,tensor=2"), or the plan in the file of that name.
/// Plans with a pipeline are balanced by a quick profile of the layers; by the layers' FLOPs if why_not_measured has a
/// reason.
Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, int devices);

/// Returns why make_plan does not measure layers on this machine for a plan with these stages and micro-batches: the
/// measurement would need more than half of the machine's memory, or would take too long. "" if make_plan measures, or
/// if there is nothing to balance.
std::string why_not_measured(const Plan& plan, const RunSpec& experiment, const Model& model);

/// Returns compile_options of the experiment for this plan. With an agreement, the workers of each replica share one
/// copy of the weights unless the plan divides them, and links are between replicas.
CompileOptions options_of(const RunSpec& experiment, const Plan& plan, bool training);

}  // namespace trireme
