// The global batches that a worker has begun but not finished, with the tensors of their micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "program/program.h"
#include "runtime/layer_call.h"
#include "runtime/step.h"
#include "runtime/worker/prepared_program.h"
#include "trireme/model.h"

namespace trireme {

/// Tensors of one micro-batch in flight.
struct MicroBatch {
  int index = 0;
  Range samples;                              ///< within the global batch
  std::vector<at::Tensor> values, gradients;  ///< by value
  std::vector<int> uses_left;
  std::vector<std::optional<RuntimeLayerCall>> calls;  ///< by op, from forward to backward
  std::map<OpId, std::vector<at::Tensor>> states;      ///< their values before the forward, for recomputing

  /// Counts one more read of `value`. Its tensor is released after the last read.
  void use_up(const Program& program, ValueId value);
  void add_gradient(const Program& program, ValueId value, const at::Tensor& gradient);
};

/// A global batch from its first forward to its update.
struct BatchInFlight {
  int64_t number = 0;  ///< counted over the run: version `number + 1` of the weights contains its gradient
  /// Oldest version of the weights that this batch may use: after the pipeline was empty, older ones no longer exist.
  int64_t oldest_version = 0;
  StepInput input;
  const Model* model = nullptr;  ///< the model for the shapes of this batch
  double clip_scale = 1;
  std::vector<double> trust;  ///< by parameter, of a layer-wise optimizer
  std::vector<MicroBatch> micro_batches;

  const Layer& layer_of(const Op& op) const { return *model->node(op.node).layer; }
  /// Returns the shape of the node's value in a micro-batch over all workers: [samples, ...sample shape].
  Shape global_shape(NodeId node, const MicroBatch& part) const;
  /// Returns the version of the weights that the op uses; schedules without flush use older ones.
  int64_t version_for(const Op& op) const { return std::max(oldest_version, number - op.delay); }
};

/// The batches that a worker processes, oldest first, and how many it has begun. Under schedules that flush there is
/// one batch during a step and none between steps.
class BatchesInFlight {
 public:
  /// `model` must outlive this object.
  explicit BatchesInFlight(const Model& model) : model_(model) {}

  /// Begins the next training batch, or a batch that is only evaluated, which requires an empty pipeline. Returns its
  /// number.
  int64_t begin_training(const PreparedProgram& prepared, const StepInput& input);
  int64_t begin_evaluation(const PreparedProgram& prepared, const StepInput& input);
  /// Returns null while the pipeline fills or drains.
  BatchInFlight* find(int64_t number);
  /// Removes the batches up to this number; they have finished.
  void retire(int64_t last);
  /// Call it when the pipeline has drained: the next batch can use no older version of the weights.
  void note_empty() { first_ = trained_; }

  bool is_empty() const { return batches_.empty(); }
  /// Returns the number of training batches that this worker has begun, which is the number of the next one.
  int64_t trained() const { return trained_; }
  /// The same, including those of the workers that this one replaces.
  int64_t all_trained() const { return earlier_ + trained_; }

  /// Replaces the counts so far.
  void resume(int64_t earlier) { earlier_ = earlier; }
  void return_to(int64_t trained) { trained_ = trained; }

 private:
  BatchInFlight& add(const PreparedProgram& prepared, const StepInput& input);

  const Model& model_;
  std::deque<BatchInFlight> batches_;
  int64_t earlier_ = 0;  ///< begun by the workers that this one replaces
  int64_t trained_ = 0;  ///< training batches begun so far
  int64_t first_ = 0;    ///< number of the first batch after the pipeline was last empty
};

}  // namespace trireme
