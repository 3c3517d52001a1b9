#include "program/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// reaches[a][b]: stage b depends, directly or indirectly, on a result of stage a.
std::vector<std::vector<bool>> reachability(const Model& model, const Plan& plan) {
  const size_t stages = plan.stages.size();
  std::vector<std::vector<bool>> reaches(stages, std::vector<bool>(stages, false));
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    for (NodeId input : model.node(id).inputs)
      if (input >= model.input_count())
        reaches[size_t(plan.layers[size_t(input)].stage)][size_t(plan.layers[size_t(id)].stage)] = true;
  for (size_t via = 0; via < stages; ++via)
    for (size_t a = 0; a < stages; ++a)
      if (reaches[a][via])
        for (size_t b = 0; b < stages; ++b)
          if (reaches[via][b]) reaches[a][b] = true;
  return reaches;
}

/// Longest-path level of each stage in the graph whose vertices are the sets of mutually dependent stages.
std::vector<int> levels(const std::vector<std::vector<bool>>& reaches) {
  const size_t stages = reaches.size();
  std::vector<int> level(stages, 0);
  auto before = [&](size_t a, size_t b) { return reaches[a][b] && !reaches[b][a]; };
  for (size_t round = 0; round < stages; ++round)  // a path visits at most all stages
    for (size_t a = 0; a < stages; ++a)
      for (size_t b = 0; b < stages; ++b)
        if (before(a, b)) level[b] = std::max(level[b], level[a] + 1);
  for (size_t a = 0; a < stages; ++a)
    for (size_t b = 0; b < stages; ++b)
      if (reaches[a][b] && reaches[b][a]) level[a] = level[b] = std::max(level[a], level[b]);
  return level;
}

/// Throws a user error if a layer reads a value of a later stage of the same workers: they do their stages in order,
/// and no message would show it.
void check_order_of_stages(const Model& model, const Plan& plan, const std::string& where) {
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    for (NodeId input : model.node(id).inputs) {
      if (input < model.input_count()) continue;
      const int here = plan.layers[size_t(id)].stage, there = plan.layers[size_t(input)].stage;
      if (there > here && plan.stages[size_t(there)] == plan.stages[size_t(here)])
        fail_user({where, fmt::format("layer {} in stage {}", model.node(id).name, here),
                   fmt::format("it needs layer {} in stage {}, which the same workers do later", model.node(input).name,
                               there),
                   "assign layers to stages so that no stage needs a result of a later one"});
    }
}

[[noreturn]] void fail_misplaced(const Schedule& schedule, int stage, int depth, const std::string& where) {
  const std::string what = fmt::format("stage {}", stage);
  if (schedule.v_shaped && stage < 2 * depth)
    fail_user({where, what,
               fmt::format("under schedule \"{}\", stages {} to {} belong to the workers of stages {} to 0",
                           schedule.name, depth, 2 * depth - 1, depth - 1),
               "give every worker one stage of the first half and one of the second, in reverse order"});
  fail_user({where, what,
             fmt::format("with several stages per worker, stage i belongs to the workers of stage i mod {}", depth),
             "assign the stages to the workers round-robin, the same number to each worker"});
}

}  // namespace

std::vector<WorkerGroup> worker_groups(const Model& model, const Plan& plan, const std::string& where) {
  const Schedule& schedule = find_schedule(plan.schedule, where);
  std::vector<WorkerGroup> groups;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    auto it =
        std::find_if(groups.begin(), groups.end(), [&](const WorkerGroup& g) { return g.workers == plan.stages[s]; });
    if (it == groups.end()) it = groups.insert(groups.end(), {plan.stages[s], {}, {}});
    it->stages.push_back(int(s));
  }
  const size_t chunks = groups.front().stages.size();
  const bool chunked =
      std::any_of(groups.begin(), groups.end(), [](const WorkerGroup& g) { return g.stages.size() > 1; });
  if (chunked) check_order_of_stages(model, plan, where);
  const auto level = chunked ? std::vector<int>{} : levels(reachability(model, plan));
  for (size_t g = 0; g < groups.size(); ++g) {
    PipelinePlace& place = groups[g].place;
    place.micro_batches = plan.micro_batches;
    place.chunks = int(groups[g].stages.size());
    place.position = chunked ? int(g) : level[size_t(groups[g].stages.front())];
    place.depth = chunked ? int(groups.size()) : *std::max_element(level.begin(), level.end()) + 1;
    if (groups[g].stages.size() != chunks)
      fail_user({where, fmt::format("stage {}", groups[g].stages.back()),
                 fmt::format("its workers have {} stages, those of stage 0 have {}", groups[g].stages.size(), chunks),
                 "assign the same number of stages to each worker"});
    for (size_t c = 0; chunked && c < groups[g].stages.size(); ++c)
      if (groups[g].stages[c] != schedule.stage_of(int(c), int(g), place.depth))
        fail_misplaced(schedule, groups[g].stages[c], place.depth, where);
  }
  if (const auto misfit = schedule.misfit ? schedule.misfit(groups.front().place) : Schedule::Misfit{};
      !misfit.why.empty())
    fail_user({where, fmt::format("schedule \"{}\"", plan.schedule), misfit.why, misfit.next});
  return groups;
}

}  // namespace trireme
