// `trireme plan` and its verbs, each with options of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace trireme {

struct PlanVerbs {
  explicit PlanVerbs(CLI::App& app);
  int run();  ///< the verb that was given

  PlanBestOptions best;
  PlanGraphOptions graph;
  PlanProjectOptions project;
  PlanShowOptions show;
  CLI::App* plan = nullptr;
};

/// Adds one verb, whose values go to the options.
void add_plan_best(CLI::App& plan, PlanBestOptions& options);
void add_plan_graph(CLI::App& plan, PlanGraphOptions& options);
void add_plan_project(CLI::App& plan, PlanProjectOptions& options);
void add_plan_show(CLI::App& plan, PlanShowOptions& options);

/// What `plan graph --cost` takes.
std::vector<std::string> graph_cost_models();

/// A command's words, the program's own left out. What `trireme plan` was before it had verbs (`plan EXPERIMENT --plan
/// NAME`, `plan EXPERIMENT
/// --objective time`, `plan --graph FILE`) becomes what it is written as now, and a line on the standard error says so.
std::vector<std::string> with_plan_verb(std::vector<std::string> words);

}  // namespace trireme
