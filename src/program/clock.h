// Executes a program with nominal times: equal stages and free communication. Shows the shape of its schedule.
#pragma once

#include <vector>

#include "program/program.h"

namespace trireme {

/// A period in which a stage works on one micro-batch without interruption.
struct Stretch {
  double begin = 0, end = 0;
  OpCode code = OpCode::forward;  ///< forward, recompute, backward, backward_input or backward_weight
  int stage = 0;
  int micro_batch = 0;
  int batch = 0;
};

/// Times are in units: one forward of one micro-batch through all layers that a worker holds.
struct UnitTimeline {
  std::vector<std::vector<Stretch>> ranks;  ///< by world rank, in order
  double makespan = 0;                      ///< end of the last work
  int batches = 1;
  /// Share of the makespan in which the rank is idle. Empty for schedules without flush, whose batches overlap.
  std::vector<double> bubbles;
};

/// Executes `batches` batches (0: enough_batches) with nominal durations. A forward of a stage takes 1 unit, divided
/// over its segments by FLOPs; recompute 1 (without layers that are restored); backward 2; backward_input and
/// backward_weight 1 each (backward_input 2 if there is no backward_weight). A stage that is one of v chunks of its
/// workers takes 1/v of that. All other instructions take no time. The program must have passed the checker.
UnitTimeline unit_clock(const Program& program, const Model& model, int batches = 0);

}  // namespace trireme
