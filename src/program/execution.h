// The interface of the engine (engine.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/demand.h"
#include "program/program.h"
#include "trireme/cluster.h"

namespace trireme {

/// One execution of a rank's instruction, in a certain step.
struct Execution {
  int rank = -1;
  int index = -1, step = 0;  ///< position in the rank's list; executed for the `step`-th time, from 0
  Lane lane = Lane::main;
  bool waited = false;     ///< it had to wait for another rank, which woke it
  bool held = false;       ///< the main lane waited for the exchange lane before it
  bool exchanges = false;  ///< the rank's exchange lane is busy when it starts
  double begin = 0;
  double free = 0;  ///< time since which the main lane was idle
};

/// Supplies the costs of instructions. Called by the engine's thread; for one rank and lane, in the order of its
/// instructions.
class EngineCosts {
 public:
  virtual ~EngineCosts() = default;
  virtual std::vector<Pool> pools() const { return {}; }
  /// What runs beside a rank's main lane.
  virtual Overlap overlap() const { return Overlap::nothing; }
  /// `together` starts: one execution, or those of all ranks that join. It ends when the work added to `demand` is
  /// done.
  virtual void begin(std::span<const Execution> /*together*/, Demand& /*demand*/) {}
  virtual void end(const Execution& /*execution*/, double /*now*/) {}
};

/// A rank that can never continue.
struct Standstill {
  int rank = -1;
  int index = -1;  ///< of the instruction that cannot start
  int batch = 0;
  std::vector<int> absent;  ///< ranks that it waits for, ascending; never empty
};

/// A message that no rank receives.
struct Leftover {
  int sender = -1, receiver = -1;  ///< `receiver` has not taken it
  Instruction sent;                ///< the code, index, micro-batch and adjoint of what was sent
  int batch = 0;
};

struct EngineOptions {
  int batches = 1;
  /// Number of times that the lists are executed; 0: `batches` + greatest_lag, until the last batch has finished.
  int steps = 0;
  /// Ranks to execute, ascending. Messages from other ranks are available at once. Empty: all.
  std::vector<int> ranks = {};
};

struct EngineEnd {
  double seconds = 0;                   ///< end of the last instruction
  int64_t executed = 0;                 ///< instructions, over all ranks
  std::vector<double> step_ends;        ///< by step: when the last rank reached the end of its list
  std::vector<Standstill> standstills;  ///< by rank; empty: every rank reached the end of its last step
  std::vector<Leftover> leftovers;      ///< one per send or prefetch that was not received; empty if a rank is blocked
};

}  // namespace trireme
