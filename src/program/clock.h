// A program on a clock with nominal times: what its schedule would look like if all stages were equal and communication
// free.
#pragma once

#include <vector>

#include "program/program.h"

namespace trireme {

/// Work of one stage on one micro-batch, without a break.
struct Stretch {
  double begin = 0, end = 0;
  OpCode code = OpCode::forward;  ///< forward, recompute, backward, backward_input or backward_weight
  int stage = 0;
  int micro_batch = 0;
  int batch = 0;
};

/// Times in units: one forward of one micro-batch through all that a worker holds of the model.
struct UnitTimeline {
  std::vector<std::vector<Stretch>> ranks;  ///< by world rank, in order
  double makespan = 0;                      ///< when the last work ends
  int batches = 1;
  /// Share of the makespan in which the rank does nothing. Empty for schedules without flush, whose batches overlap.
  std::vector<double> bubbles;
};

/// Executes `batches` batches (0: enough_batches) with nominal durations: a forward of a stage takes 1 unit, spread
/// over its segments by FLOPs, recompute 1, backward 2, backward_input and backward_weight 1 each (backward_input 2
/// where nothing is left for a backward_weight); a stage that is one of v chunks of its workers 1/v of that; everything
/// else nothing. The program must have passed the checker.
UnitTimeline unit_clock(const Program& program, const Model& model, int batches = 0);

}  // namespace trireme
