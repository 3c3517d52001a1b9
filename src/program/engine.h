// Executes a program without tensors: all ranks' instructions in the order in which what they wait for lets them go on,
// at what the caller says that they cost. Without time it is the checker, with nominal times the drawing, with seconds
// and shared links the simulator, with bytes the prediction of memory.
#pragma once

#include "program/execution.h"

namespace trireme {

/// In step t an instruction with lag l works on batch t - l, and is skipped where there is no such batch (start-up,
/// draining).
///
/// An instruction begins when its rank has ended the one before and what it waits for is there: its rendezvous
/// (rendezvous.h) and, of shared replicas, the updates that its site needs. What is sent is there when the send has
/// ended, for which the sender waits for nobody; ranks that join begin when the last of them has come, and end
/// together. Where links overlap computing, instructions of other lanes are handed over and go on beside the list, each
/// lane in its order; an update begins when its bucket's sum has ended, norms when all have.
///
/// Time grows with the number of instructions executed and of ranks, memory with what is under way at one time.
EngineEnd execute(const Program& program, EngineCosts& costs, const EngineOptions& options);

/// Enough to see start-up, steady state and draining: 1 for programs that flush.
int enough_batches(const Program& program);

}  // namespace trireme
