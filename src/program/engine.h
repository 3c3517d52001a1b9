// Executes a program without tensors: all ranks' instructions in the order in which what they wait for lets them go on, at what the caller
// says that they cost. Without time it is the checker, with nominal times the drawing, with seconds and shared links the simulator, with
// bytes the prediction of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cluster.h"
#include "program/demand.h"
#include "program/program.h"

namespace trireme {

/// An instruction of a rank in a certain step.
struct Execution {
  int rank = -1;
  int index = -1, step = 0;  ///< position in the rank's list; executed for the `step`-th time, from 0
  Lane lane = Lane::main;
  bool waited = false;       ///< for another rank, which had to wake it
  bool held = false;         ///< the main lane has waited for the exchange lane before it
  bool exchanges = false;    ///< the rank's exchange lane is at work when it begins
  double begin = 0;
  double free = 0;           ///< since when the main lane was
};

/// What instructions cost. Called by the engine's thread; for one rank and lane in the order of its instructions.
class EngineCosts {
 public:
  virtual ~EngineCosts() = default;
  virtual std::vector<Pool> pools() const { return {}; }
  /// What goes on beside a rank's list.
  virtual Overlap overlap() const { return Overlap::nothing; }
  /// `together` begins: one execution, or those of all ranks that join. They end when what is added to `demand` is done.
  virtual void begin(std::span<const Execution> /*together*/, Demand& /*demand*/) {}
  virtual void end(const Execution& /*execution*/, double /*now*/) {}
};

/// A rank that can never go on.
struct Standstill {
  int rank = -1;
  int index = -1;           ///< of the instruction that it stands at
  int batch = 0;
  std::vector<int> absent;  ///< ranks that it waits for, ascending; never empty
};

/// Something sent that nobody takes.
struct Leftover {
  int sender = -1, receiver = -1;  ///< the receiver has not taken it
  Instruction sent;                ///< the code, index, micro-batch and adjoint of what was sent
  int batch = 0;
};

struct EngineOptions {
  int batches = 1;
  /// Times that the lists are executed; 0: `batches` + greatest_lag, until the last batch is through.
  int steps = 0;
  /// Ranks to execute, ascending; what they wait for of others is there at once. Empty: all.
  std::vector<int> ranks = {};
};

struct EngineEnd {
  double seconds = 0;                   ///< when the last instruction ended
  int64_t executed = 0;                 ///< instructions, over all ranks
  std::vector<double> step_ends;        ///< by step: when the last rank came to the end of its list
  std::vector<Standstill> standstills;  ///< by rank; none: every rank came to the end of its last step
  std::vector<Leftover> leftovers;      ///< one per send or prefetch that was not taken; empty where a rank stands still
};

/// In step t an instruction with lag l works on batch t - l, and is skipped where there is no such batch (start-up, draining).
///
/// An instruction begins when its rank has ended the one before and what it waits for is there: its rendezvous (rendezvous.h) and, of
/// shared replicas, the updates that its site needs. What is sent is there when the send has ended, for which the sender waits for nobody;
/// ranks that join begin when the last of them has come, and end together. Where links overlap computing, instructions of other lanes are
/// handed over and go on beside the list, each lane in its order; an update begins when its bucket's sum has ended, norms when all have.
///
/// Time grows with the number of instructions executed and of ranks, memory with what is under way at one time.
EngineEnd execute(const Program& program, EngineCosts& costs, const EngineOptions& options);

/// Enough to see start-up, steady state and draining: 1 for programs that flush.
int enough_batches(const Program& program);

}  // namespace trireme
