// The fastest plan of a space: the search that every objective asks.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/step_model.h"

namespace trireme {

inline constexpr size_t kRunnersUp = 8;  ///< in an answer

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
  bool is_least = true;  ///< that less would not do is proven, to a thousandth; false: the time limit ended the search
  std::vector<std::string> changes = {};  ///< what would make some plan fit: a smaller batch, then more memory
};

struct PlanAnswer {
  std::optional<RatedPlan> best;
  std::vector<RatedPlan> runners_up;  ///< others that were found on the way, best first
  double lower_bound = 0;             ///< of the objective: no plan of the space is better under the step model
  std::string proof;                  ///< "optimal under the step model" or the gap and why
  bool out_of_time = false;           ///< the time limit, and nothing else, left a gap, or no plan
  std::string searched;               ///< the space in words
  int configurations = 0;             ///< combinations of what is enumerated ...
  int searched_configurations =
      0;              ///< ... that the sum of the work alone did not rule out (each way to cut tied parameters counts)
  size_t labels = 0;  ///< partial divisions of stages that were looked at
  std::optional<Shortfall> shortfall;  ///< where no plan fits; not where none was found in time

  double gap() const { return best && best->objective > 0 ? (best->objective - lower_bound) / best->objective : 0; }
};

/// The fastest plan, of those faster than `cutoff` seconds. `any`: the first that is found will do.
PlanAnswer find_fastest(const PlanRequest& request, double cutoff = std::numeric_limits<double>::infinity(),
                        bool any = false);

/// Fills `proof` and `out_of_time` of an answer whose search is over. `else_why`: why there is a gap where neither the
/// time nor the tolerance is to blame.
void add_proof(PlanAnswer& answer, const PlanRequest& request, const Deadline& deadline, const char* else_why);

}  // namespace trireme
