// Steps that are either wholly in the weights or not at all (runtime/whole_step.h).
#pragma once

#include <cstdint>

#include "runtime/whole_step.h"
#include "runtime/worker/context.h"
#include "runtime/worker/layer_buffers.h"

namespace trireme {

/// Does nothing without WorkerOptions::keeps_whole_steps. Steps are numbered from 1.
class KeptSteps {
 public:
  /// References must outlive this object.
  KeptSteps(const WorkerContext& context, const LayerBuffers& buffers) : context_(context), buffers_(buffers) {}

  /// Call it on all ranks before a step. Rank 0 copies the running statistics, because they change in the forward,
  /// before the step is agreed on.
  void begin();
  /// Call it before each update. Before the first update of a step, all ranks wait for all sums and exchange their
  /// losses. The updates after that wait for no other worker.
  void agree(int64_t step, double loss_sum);
  /// True if all ranks have agreed on the current step: its updates are made, whatever happens to other workers.
  bool updates() const { return updates_; }
  void end(int64_t step);

  const WholeSteps& steps() const { return steps_; }
  /// Call it on rank 0 after a failure if updates() is false. Restores the running statistics to those before the
  /// failed step. That step is not in steps().
  void restore_statistics();

 private:
  const WorkerContext& context_;
  const LayerBuffers& buffers_;
  WholeSteps steps_;
  TensorsOfNodes before_;  ///< buffers before the current step
  bool in_step_ = false, updates_ = false;
};

}  // namespace trireme
