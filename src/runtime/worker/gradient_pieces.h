// Measures the norms of the gradients of parts of a batch.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// A piece is a gradient that this worker sums alone, over some samples of the batch: its contribution to a sum over
/// several workers or, with a single worker, the gradient of its first micro-batch. Used with
/// WorkerOptions::gradient_norms; only for programs without an obstacle_to_gradient_norms.
class GradientPieces {
 public:
  /// `context` must outlive this object.
  explicit GradientPieces(const WorkerContext& context) : context_(context) {}

  /// Call it before each instruction of a training step. If the instruction is about to add a complete piece to other
  /// pieces, adds the piece to `norms`.
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
  // with a single worker only:
  int64_t batch_ = -1;       ///< number of the batch that the other members belong to
  int first_backward_ = -1;  ///< micro-batch whose backward came first
  bool is_counted_ = false;  ///< true if that piece has been counted
};

}  // namespace trireme
