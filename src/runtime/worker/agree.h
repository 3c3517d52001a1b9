// Executes the instruction `agree`.
#pragma once

#include <cstdint>

#include "runtime/replica_view.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// All workers of a replica execute it together, in a program that agrees. No worker computes before the leader has the
/// policy's answer. After the step only the leader touches the weights, until the next before_step.
class Agree {
 public:
  /// `context` must outlive this object; its options must contain the agreement.
  explicit Agree(const WorkerContext& context) : context_(context) {}

  /// Sets in `outcome` whether the step is made.
  void before_step(BatchInFlight& batch, StepOutcome& outcome) const;
  /// `loss_sum`: StepOutcome::loss_sum of this worker's step.
  void after_step(const PreparedProgram& prepared, double loss_sum);

  /// See Worker::show. `is_updated`: the optimizer has made a step.
  void show(const PreparedProgram& prepared, bool is_updated, ReplicaView& view) const;

 private:
  const WorkerContext& context_;
  int64_t steps_ = 0;  ///< of this worker, without those of the workers that it replaces
};

}  // namespace trireme
