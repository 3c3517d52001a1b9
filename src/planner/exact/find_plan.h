// The best plan for a model on a cluster under the step model (step_model.h), and the proof that it is.
//
// Schedules, micro-batches, optimizer sharding and recompute are enumerated: of these questions the one with the least bound is always taken a
// step further, until no bound is below the best plan. Cuts and devices of stages come from a dynamic program over cuts
// (pipeline_search.h), the division of every layer from one over the graph's live values (segment_search.h). Where parameters are tied it is
// asked once for every way to cut them alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/exact/step_model.h"

namespace trireme {

struct RatedPlan {
  Plan plan;
  Prediction prediction;
  double objective = 0;  ///< seconds, bytes or money
};

/// What keeps all plans from fitting.
struct Shortfall {
  RatedPlan nearest = {};  ///< the plan whose fullest device is least over its limit
  int stage = 0;           ///< of that device
  double missing = 0;      ///< bytes there
  bool is_least = true;    ///< that less would not do is proven, to a thousandth; false: the time limit ended the search
  std::vector<std::string> changes = {};  ///< what would make some plan fit: a smaller batch, then more memory
};

struct PlanAnswer {
  std::optional<RatedPlan> best;
  std::vector<RatedPlan> runners_up;  ///< others that were found on the way, best first
  double lower_bound = 0;             ///< of the objective: no plan of the space is better under the step model
  std::string proof;                  ///< "optimal under the step model" or the gap and why
  bool out_of_time = false;           ///< the time limit, and nothing else, left a gap, or no plan
  std::string searched;               ///< the space in words
  int questions = 0;                  ///< combinations of what is enumerated ...
  int searched_questions = 0;         ///< ... that the sum of the work alone did not rule out (each way to cut tied parameters counts)
  size_t labels = 0;                  ///< partial divisions of stages that were looked at
  std::optional<Shortfall> shortfall; ///< where no plan fits; not where none was found in time

  double gap() const { return best && best->objective > 0 ? (best->objective - lower_bound) / best->objective : 0; }
};

/// Errors (user): an empty space (unknown schedules, more micro-batches than samples). One thread; deterministic but for a time limit.
PlanAnswer find_plan(const PlanRequest& request);
/// The same, but does not look for what is missing where no plan fits.
PlanAnswer search_plan(const PlanRequest& request);

/// What the default space stands for on this request's cluster.
std::vector<int> stage_sizes_of(const PlanRequest& request);
std::vector<int> micro_batches_of(const PlanRequest& request);
bool has_equal_stages(const PlanRequest& request);

}  // namespace trireme
