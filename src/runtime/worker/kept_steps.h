// Steps that are wholly in the weights or not at all (runtime/whole_step.h).
#pragma once

#include <cstdint>

#include "runtime/whole_step.h"
#include "runtime/worker/context.h"
#include "runtime/worker/layer_buffers.h"

namespace trireme {

/// Does nothing without WorkerOptions::keeps_whole_steps. Steps are numbered from 1.
class KeptSteps {
 public:
  /// References outlive it.
  KeptSteps(const WorkerContext& context, const LayerBuffers& buffers) : context_(context), buffers_(buffers) {}

  /// On rank 0 keeps the running statistics: they change with the forward, long before it is known whether the step
  /// will be one.
  void begin();
  /// Before each update. Before the first of a step all ranks wait for all sums and tell each other their losses: what
  /// comes after it waits for no other worker.
  void agree(int64_t step, double loss_sum);
  /// All agreed on the step that runs: its updates are made, whatever happens to other workers.
  bool updates() const { return updates_; }
  void end(int64_t step);

  const WholeSteps& steps() const { return steps_; }
  /// On rank 0 after a failure, unless updates(): running statistics are as before the step that failed, which is not
  /// in steps().
  void take_back();

 private:
  const WorkerContext& context_;
  const LayerBuffers& buffers_;
  WholeSteps steps_;
  TensorsOfNodes before_;  ///< buffers as they were before the step that runs
  bool in_step_ = false, updates_ = false;
};

}  // namespace trireme
