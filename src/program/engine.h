// Executes a program without tensors. An instruction starts as soon as all it waits for is available, and costs what
// EngineCosts says. Without time the engine is the checker; with nominal times, the drawing; with seconds and shared
// links, the simulator; with bytes, the memory prediction.
#pragma once

#include "program/execution.h"

namespace trireme {

/// Executes `program`. In step t an instruction with lag l works on batch t - l. It is skipped if there is no such
/// batch (start-up, draining).
///
/// An instruction starts when its rank has ended the previous one, its rendezvous (rendezvous.h) is complete and, for
/// shared replicas, the updates that its site needs have been made. A message is available when its send has ended; the
/// sender does not wait for the receiver. Ranks that join start when the last of them arrives, and end together. If
/// links overlap computing, instructions of the other lanes are queued and run beside the list, each lane in its order.
/// The update of a bucket starts when the sum of its gradients has ended, a norm when all sums have ended.
///
/// Time is proportional to the number of executed instructions and of ranks, memory to the work in flight.
EngineEnd execute(const Program& program, EngineCosts& costs, const EngineOptions& options);

/// A number of batches that shows start-up, steady state and draining: 1 for programs that flush.
int enough_batches(const Program& program);

}  // namespace trireme
