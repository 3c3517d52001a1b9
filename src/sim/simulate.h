// Executes a compiled program on a clock (program/engine.h). It executes the same instructions in the same order and
// with the same partners as the runtime, with seconds from a cost model instead of tensors. Returns the quantities that
// a run measures, and a timeline in the same format.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/instruction_costs.h"
#include "cost/memory_options.h"
#include "program/program.h"
#include "runtime/timeline.h"

namespace trireme {

struct SimulationOptions {
  int steps =
      3;  ///< steps simulated; the first fills the pipeline and is excluded from step_seconds if there are others
  bool timeline = false;  ///< record a timeline of the last step
  bool arrivals = false;  ///< record when messages arrive in the last step
  /// Ranks to simulate, ascending. Each represents the ranks that do the same at the same time (see representatives).
  /// Empty: all.
  std::vector<int> ranks = {};
};

/// Seconds of a worker in one step.
struct SimulatedWorker {
  double computing = 0;
  double exposed = 0;  ///< communication while it computes nothing
  double waiting = 0;  ///< the rest: until another worker is ready
  double bytes_sent = 0;
};

struct Simulation {
  double step_seconds = 0;  ///< from the end of a step on the last worker to the end of the next step, mean over the
                            ///< steps
  std::vector<int> ranks;   ///< the simulated ranks
  std::vector<SimulatedWorker> workers;  ///< in the order of `ranks`
  Timeline timeline;
  std::vector<std::vector<MessageArrival>> arrivals;  ///< by rank
  int64_t executed = 0;                               ///< number of executed instructions
};

/// `costs` must be of the same program, and `links` those of `costs`. The program must have passed the checker.
Simulation simulate(const Program& program, const Model& model, ProgramCosts& costs, const Links& links,
                    const SimulationOptions& options = {});

/// Chooses one rank of each kind, and the ranks from which the chosen ones receive. Ranks of one kind have the same
/// instruction list (except for the names of equal buckets), equally many samples of each micro-batch and equal
/// positions in equal nodes. Returns all ranks if the kinds cannot be determined.
std::vector<int> representatives(const Program& program, const Cluster& cluster, int64_t batch);

}  // namespace trireme
