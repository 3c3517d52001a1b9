// Searches for the fastest plan of a space. All objectives use this search.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/step_model.h"

namespace trireme {

inline constexpr size_t kRunnersUp = 8;  ///< most runners-up in an answer

struct RatedPlan {
  Plan plan;
  Prediction prediction;
  double objective = 0;  ///< seconds, bytes or money
};

/// The memory by which all plans miss the limits.
struct Shortfall {
  RatedPlan nearest = {};  ///< the plan whose fullest device exceeds its limit least
  int stage = 0;           ///< stage of that device
  double missing = 0;      ///< bytes by which it exceeds the limit
  bool is_least = true;    ///< true: proven to be the minimum, to a thousandth; false: the time limit ended the search
  std::vector<std::string> changes = {};  ///< changes that make some plan fit: a smaller batch, then more memory
};

struct PlanAnswer {
  std::optional<RatedPlan> best;
  std::vector<RatedPlan> runners_up;  ///< other plans that were found, best first
  double lower_bound = 0;             ///< on the objective: no plan of the space is better under the step model
  std::string proof;                  ///< "optimal under the step model", or the gap and its reason
  bool out_of_time = false;           ///< only the time limit caused the gap or the lack of a plan
  std::string searched;               ///< the space as text
  int configurations = 0;             ///< number of enumerated configurations
  int searched_configurations =
      0;  ///< number that the bound from the work alone did not rule out (each way to split tied parameters counts)
  size_t labels = 0;                   ///< number of partial stage divisions examined
  std::optional<Shortfall> shortfall;  ///< set if no plan fits; not set if the time limit ended the search

  double gap() const { return best && best->objective > 0 ? (best->objective - lower_bound) / best->objective : 0; }
};

/// Returns the fastest plan, of the plans faster than `cutoff` seconds. `any`: stops at the first plan found.
PlanAnswer find_fastest(const PlanRequest& request, double cutoff = std::numeric_limits<double>::infinity(),
                        bool any = false);

/// Sets `proof` and `out_of_time` of a finished search's answer. `else_why`: the reason for a gap that neither the time
/// limit nor the tolerance explains.
void add_proof(PlanAnswer& answer, const PlanRequest& request, const Deadline& deadline, const char* else_why);

}  // namespace trireme
