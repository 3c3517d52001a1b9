// What a plan's name on the command line means, and how many devices it is for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "train/experiment.h"

namespace trireme {

/// Throws a user error, naming `where` (a flag or key), for what is neither a known plan, nor degrees, nor a file that is there.
void check_plan_name(const std::string& name, const std::string& where);

/// The product of degrees such as "data=2,tensor=2"; nullopt for any other name.
std::optional<int> devices_of_degrees(const std::string& name);

/// --strategies is cut at commas, and so are degrees: puts "data=2", "tensor=2" together again. A degree that occurs for the
/// second time begins the next plan.
std::vector<std::string> join_degrees(const std::vector<std::string>& items);

/// The plan of a file, named after the file: its own name may still be that of the plan it was edited from. It is valid and its
/// program passes the checker, or else a user error names the file.
Plan load_plan_file(const std::string& file, const Experiment& experiment, const Model& model);

/// The plan called `name`, on `devices` where --devices gave a number; else on as many as the plan says (a file, degrees), else
/// on the first number of the experiment's.
Plan choose_plan(const std::string& name, const std::vector<int>& devices, const Experiment& experiment, const Model& model);

/// The plan's JSON laid out for people who edit it: what it is first, one layer a line.
std::string plan_text(const Plan& plan, const Model& model);

}  // namespace trireme
