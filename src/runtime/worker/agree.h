// Executes the instruction `agree`.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/replica_view.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// All workers of a replica execute it together, in a program that agrees. No worker computes before the leader has the
/// policy's answer. After the step only the leader touches the weights, until the next before_step.
class Agree {
 public:
  /// Arguments must outlive this object; the context's options must contain the agreement.
  Agree(const WorkerContext& context, const BatchesInFlight& batches) : context_(context), batches_(batches) {}

  /// Sets in `outcome` whether the step is made.
  void before_step(BatchInFlight& batch, StepOutcome& outcome);
  /// `outcome`: of this worker's step.
  void after_step(const PreparedProgram& prepared, const StepOutcome& outcome);

  /// See Worker::show. `is_updated`: the optimizer has made a step.
  void show(const PreparedProgram& prepared, bool is_updated, ReplicaView& view);

  /// Returns how many updates were made before the policy last restarted the optimizer.
  int64_t updates_before_restart() const { return *restarts_ ? all_updates_ : before_restart_; }

 private:
  const WorkerContext& context_;
  const BatchesInFlight& batches_;
  void note_updates();
  void restart_optimizer_if_wanted();

  int64_t steps_ = 0;  ///< of this worker, without those of the workers that it replaces
  // Updates of this worker; updates of this worker and of the workers that it replaces.
  int64_t updates_ = 0, all_updates_ = 0;
  int64_t before_restart_ = 0;
  /// Set by the leader: the optimizer must restart before this worker's next update. Shared, because the leader may set
  /// it after this object has ended.
  std::shared_ptr<bool> restarts_ = std::make_shared<bool>(false);
};

}  // namespace trireme
