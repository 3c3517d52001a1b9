// Moves activations and gradients between layouts.
#pragma once

#include "program/program.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "tensor/redistribute.h"

namespace trireme {

/// Executes `redistribute`, `send` and `receive`, for both the training and the evaluation program.
class TransferExecution {
 public:
  /// `context` must outlive this object.
  explicit TransferExecution(const WorkerContext& context)
      : context_(context), redistributor_(context.world, context.rank) {}

  /// All workers that the layouts name must call it together. `part` is a micro-batch of `batch`.
  void run(const Program& program, const Instruction& instruction, const BatchInFlight& batch, MicroBatch& part);

 private:
  const WorkerContext& context_;
  Redistributor redistributor_;
};

}  // namespace trireme
