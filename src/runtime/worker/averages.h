// Averaged weights and running statistics in place of the raw ones, for an evaluation.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "runtime/migrate/training_state.h"
#include "runtime/worker/context.h"
#include "runtime/worker/layer_buffers.h"

namespace trireme {

/// Does nothing where the optimizer averages no weights (OptimizerConfig::ema). The replicas hold the averages of
/// weights; those of running statistics are here. `steps`: of the optimizer so far. `trainable`: this worker's buckets
/// that are updated.
class Averages {
 public:
  /// References outlive it.
  Averages(const WorkerContext& context, const LayerBuffers& buffers) : context_(context), buffers_(buffers) {}

  /// After a step: running statistics take the same share of their averages as the step's weights of theirs.
  void add_step(int64_t steps);
  /// Averages take the place of weights and running statistics, or these their own again. All ranks together.
  void show(bool shown, int64_t steps, const std::vector<BucketId>& trainable);
  /// The raw ones take their place again on this worker alone, which communicates with no other.
  void hide_alone(const std::vector<BucketId>& trainable);

  /// The op's averages, with their place in the full tensors, and the other way round.
  void add_held(const Op& op, std::vector<HeldPart>& held) const;
  void resume(const Op& op, const TrainingState& from);

 private:
  void exchange(const std::vector<BucketId>& trainable);

  const WorkerContext& context_;
  const LayerBuffers& buffers_;
  TensorsOfNodes averages_;
  bool shown_ = false;  ///< weights and buffers have changed places with their averages
};

}  // namespace trireme
