// What the engine (engine.h) asks and tells.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/demand.h"
#include "program/program.h"
#include "trireme/cluster.h"

namespace trireme {

/// An instruction of a rank in a certain step.
struct Execution {
  int rank = -1;
  int index = -1, step = 0;  ///< position in the rank's list; executed for the `step`-th time, from 0
  Lane lane = Lane::main;
  bool waited = false;     ///< for another rank, which had to wake it
  bool held = false;       ///< the main lane has waited for the exchange lane before it
  bool exchanges = false;  ///< the rank's exchange lane is at work when it begins
  double begin = 0;
  double free = 0;  ///< since when the main lane was
};

/// What instructions cost. Called by the engine's thread; for one rank and lane in the order of its instructions.
class EngineCosts {
 public:
  virtual ~EngineCosts() = default;
  virtual std::vector<Pool> pools() const { return {}; }
  /// What goes on beside a rank's list.
  virtual Overlap overlap() const { return Overlap::nothing; }
  /// `together` begins: one execution, or those of all ranks that join. They end when what is added to `demand` is
  /// done.
  virtual void begin(std::span<const Execution> /*together*/, Demand& /*demand*/) {}
  virtual void end(const Execution& /*execution*/, double /*now*/) {}
};

/// A rank that can never go on.
struct Standstill {
  int rank = -1;
  int index = -1;  ///< of the instruction that it stands at
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
  std::vector<Leftover> leftovers;  ///< one per send or prefetch that was not taken; empty where a rank stands still
};

}  // namespace trireme
