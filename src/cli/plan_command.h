// `trireme plan` and its verbs, each with options of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace trireme {

struct PlanVerbs {
  explicit PlanVerbs(CLI::App& app);
  int run();  ///< runs the verb that was given

  PlanBestOptions best;
  PlanGraphOptions graph;
  PlanProjectOptions project;
  PlanShowOptions show;
  CLI::App* plan = nullptr;
};

/// Each adds one verb, which writes its values to `options`.
void add_plan_best(CLI::App& plan, PlanBestOptions& options);
void add_plan_graph(CLI::App& plan, PlanGraphOptions& options);
void add_plan_project(CLI::App& plan, PlanProjectOptions& options);
void add_plan_show(CLI::App& plan, PlanShowOptions& options);

/// Returns the values that `plan graph --cost` accepts.
std::vector<std::string> graph_cost_models();

/// `words`: the words of the command line without the program's name. Converts a command from before `trireme plan` had
/// verbs (`plan EXPERIMENT --plan NAME`, `plan EXPERIMENT --objective time`, `plan --graph FILE`) to its present form,
/// and prints a line on standard error that says so.
std::vector<std::string> with_plan_verb(std::vector<std::string> words);

}  // namespace trireme
