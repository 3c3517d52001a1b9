// Executes a compiled program on a clock (program/engine.h): the same instructions, in the same order and with the same
// partners, as the runtime executes them on tensors, with seconds from a cost model. What comes out is what a run is
// measured by, and a timeline in the same format.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/instruction_costs.h"
#include "program/program.h"
#include "runtime/timeline.h"

namespace trireme {

struct SimulationOptions {
  int steps =
      3;  ///< steps simulated; the first fills the pipeline and is not part of step_seconds where there are others
  bool timeline = false;  ///< of the last step
  /// Ranks to simulate, ascending; they stand for the others, which do the same at the same time (see representatives).
  /// Empty: all.
  std::vector<int> ranks = {};
};

/// Seconds of a worker within one step.
struct SimulatedWorker {
  double computing = 0;
  double exposed = 0;  ///< communicating while it computes nothing
  double waiting = 0;  ///< the rest: until another worker was ready
  double bytes_sent = 0;
};

struct Simulation {
  double step_seconds = 0;  ///< from the end of one step on the last worker to the end of the next, mean over the steps
  std::vector<int> ranks;   ///< that were simulated
  std::vector<SimulatedWorker> workers;  ///< theirs
  Timeline timeline;
  int64_t executed = 0;  ///< instructions
};

/// `costs` is of the same program; `links` of the costs. The program must have passed the checker.
Simulation simulate(const Program& program, const Model& model, ProgramCosts& costs, const Links& links,
                    const SimulationOptions& options = {});

/// One rank of each kind, where the others of its kind have the same instruction list (but for the names of equal
/// buckets), equal shares of every batch and equal places in equal nodes, and those that they take from; all ranks
/// where that is not so.
std::vector<int> representatives(const Program& program, const Cluster& cluster, int64_t batch);

}  // namespace trireme
