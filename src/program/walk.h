// Executes a program on paper: all ranks' instructions in the order in which their meetings let them go on, on a clock that the
// caller gives. The checker walks without time, pictures with nominal times.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace trireme {

/// What a walk asks and tells. Called by the walking thread; for one rank in the order of its instructions, between ranks in no
/// particular order (the times do not depend on it: everybody waits for certain partners, never for "any").
class WalkClock {
 public:
  virtual ~WalkClock() = default;
  /// Seconds that the instruction takes this rank once it has begun. Where ranks join, all take as long as the slowest.
  virtual double duration(int /*rank*/, const Instruction& /*instruction*/) { return 0; }
  /// `index`: in the rank's list, executed for the `step`-th time (from 0). Between the end of the instruction before and
  /// `begin` the worker waited.
  virtual void on_event(int /*rank*/, int /*index*/, int /*step*/, double /*begin*/, double /*end*/) {}
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
  int sender = -1, receiver = -1;  ///< who should have taken it
  Instruction sent;                ///< the code, index, micro-batch and adjoint of what was sent
  int batch = 0;
};

struct WalkEnd {
  double seconds = 0;                  ///< when the last instruction ended
  int64_t executed = 0;                ///< instructions, over all ranks
  std::vector<Standstill> standstills;  ///< by rank; none: every rank came to the end of its list
  std::vector<Leftover> leftovers;     ///< one per send or prefetch that was not taken; empty where somebody stands still
};

/// Walks `batches` batches. The lists are executed `batches` + greatest_lag times: in step t an instruction with lag l works on
/// batch t - l, and is skipped where there is no such batch (start-up, draining).
///
/// An instruction begins when its worker has ended the one before and what it waits for is there:
/// - who meets whom is told by Meetings (meetings.h); what is sent is there when the send has ended, for which the sender waits
///   for nobody; those who join begin when the last of them has come, and end together;
/// - shared replicas: forward of batch t reads the weights of version t - delay and so waits for the optimizer steps of batch
///   t - delay - 1 of all holders, and backward for those of batch t - 1, who read its gradient before it is overwritten.
///   Private replicas wait for their own list only.
/// Time grows with the number of instructions executed and of ranks, memory with what is under way at one time.
WalkEnd walk(const Program& program, const Model& model, int batches, WalkClock& clock);

/// Enough to see start-up, steady state and draining: 1 for programs that flush.
int batches_to_walk(const Program& program);

}  // namespace trireme
