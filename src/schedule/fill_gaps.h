// The search of Qi et al. ("Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1): orders of F, B and W in which W
// fills the gaps.
#pragma once

#include <cstdint>

#include "trireme/schedule.h"

namespace trireme {

/// What the search knows of a stage; all stages are equal. Times and memory each in a unit of their own.
struct FillTimes {
  int64_t forward = 1, backward_input = 1, backward_weight = 1;  ///< of a micro-batch
  int64_t message = 0;                                           ///< delay of a message
  int64_t whole = 1;  ///< memory of a micro-batch until its backward of inputs
  int64_t kept = 1;   ///< the part of it that is kept until its backward of weights
  int64_t most = 1;   ///< greatest memory of a position; at least `whole` for each position
  friend bool operator==(const FillTimes&, const FillTimes&) = default;
};

/// Returns the position's tasks without the update. Each position first does as many F as fit, in time and memory,
/// before its first B, but fewer than the position before; then one F and one B in turn. Before each of these it does W
///   - while the memory has no room for another F;
///   - while there is time for a W until the next task's input arrives;
///   - once more if waiting would make this position the one that has waited longest.
/// The other W are at the end. The authors also try two ways to begin and two ways to leave out an F.
std::vector<Task> fill_gaps(const PipelinePlace& place, const FillTimes& times);

}  // namespace trireme
