// Swaps weights and running statistics with their averages for an evaluation.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "runtime/migrate/training_state.h"
#include "runtime/worker/context.h"
#include "runtime/worker/layer_buffers.h"

namespace trireme {

/// Does nothing if the optimizer averages no weights (OptimizerConfig::ema). The replicas hold the averages of the
/// weights; this class holds those of the running statistics. `steps`: optimizer steps so far. `trainable`: the buckets
/// of this worker that are updated.
class Averages {
 public:
  /// References must outlive this object.
  Averages(const WorkerContext& context, const LayerBuffers& buffers) : context_(context), buffers_(buffers) {}

  /// Call it after a step. The running statistics enter their averages with the same share as the weights.
  void add_step(int64_t steps);
  /// Swaps weights and running statistics with their averages (`shown`), or swaps them back. All ranks must call it
  /// together.
  void show(bool shown, int64_t steps, const std::vector<BucketId>& trainable);
  /// Swaps the raw values back on this worker alone, without communication.
  void hide_alone(const std::vector<BucketId>& trainable);

  /// Adds the op's averages, with their regions in the full tensors; resume() reads them from there.
  void add_held(const Op& op, std::vector<HeldPart>& held) const;
  void resume(const Op& op, const TrainingState& from);

 private:
  void exchange(const std::vector<BucketId>& trainable);

  const WorkerContext& context_;
  const LayerBuffers& buffers_;
  TensorsOfNodes averages_;
  bool shown_ = false;  ///< weights and buffers are swapped with their averages
};

}  // namespace trireme
