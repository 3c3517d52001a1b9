// Which part of a batch each piece of its gradient is of: for norms of gradients of parts and of the whole.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// A piece is the gradient that this worker sums by itself, of some samples of the batch: what it contributes to a sum
/// over several workers, and of a single worker its first micro-batch. With WorkerOptions::gradient_norms; only for
/// programs without an obstacle_to_gradient_norms.
class GradientPieces {
 public:
  /// `context` outlives it.
  explicit GradientPieces(const WorkerContext& context) : context_(context) {}

  /// Before each instruction of a training step: adds a piece that is complete and is about to be added to others to
  /// `norms`.
  void measure(const PreparedProgram& prepared, const Instruction& next, const BatchInFlight& batch,
               GradientNorms& norms);

 private:
  void measure_contribution(const PreparedProgram& prepared, const Instruction& reduction, const BatchInFlight& batch,
                            GradientNorms& norms) const;
  void measure_first_micro_batch(const PreparedProgram& prepared, const Instruction& backward,
                                 const BatchInFlight& batch, GradientNorms& norms);
  double squares_so_far(const Program& program, BucketId bucket) const;
  int64_t samples_here(const Program& program, const BatchInFlight& batch, const MicroBatch& part) const;

  const WorkerContext& context_;
  // of a single worker
  int64_t batch_ = -1;       ///< number of the batch that the rest is about
  int first_backward_ = -1;  ///< micro-batch whose backward came first
  bool is_counted_ = false;  ///< that piece is
};

}  // namespace trireme
