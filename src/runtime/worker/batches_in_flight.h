// The global batches that a worker has begun and not finished, with the tensors of their micro-batches.
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
  std::map<OpId, std::vector<at::Tensor>> states;      ///< as they were before the forward, for recomputing

  /// `value` has been read once more. Its tensor goes with the last read.
  void use_up(const Program& program, ValueId value);
  void add_gradient(const Program& program, ValueId value, const at::Tensor& gradient);
};

/// A global batch from its first forward to its update.
struct BatchInFlight {
  int64_t number = 0;          ///< of the run: version `number + 1` of the weights has its gradient in it
  int64_t oldest_version = 0;  ///< of the weights: right after the pipeline was empty there are no older ones
  StepInput input;
  const Model* model = nullptr;  ///< for the shapes of this batch
  double clip_scale = 1;
  std::vector<double> trust;  ///< by parameter, of a layer-wise optimizer
  std::vector<MicroBatch> micro_batches;

  const Layer& layer_of(const Op& op) const { return *model->node(op.node).layer; }
  /// Of the node's value in a micro-batch, on all workers together: [samples, ...sample shape].
  Shape global_shape(NodeId node, const MicroBatch& part) const;
  /// Of the weights that the op computes with: schedules without flush compute with older ones.
  int64_t version_for(const Op& op) const { return std::max(oldest_version, number - op.delay); }
};

/// The batches that a worker works on, the oldest first, and how many there have been. Under schedules that flush there
/// is one during a step and none between steps.
class BatchesInFlight {
 public:
  /// `model` outlives it.
  explicit BatchesInFlight(const Model& model) : model_(model) {}

  /// Begins the next batch of training, or one that is only evaluated, which needs an empty pipeline. Returns its
  /// number.
  int64_t begin_training(const PreparedProgram& prepared, const StepInput& input);
  int64_t begin_evaluation(const PreparedProgram& prepared, const StepInput& input);
  /// Null: the pipeline is filling or running empty.
  BatchInFlight* find(int64_t number);
  /// Batches up to this number are through.
  void retire(int64_t last);
  /// The pipeline has run empty: the next batch has no older version of the weights.
  void note_empty() { first_ = trained_; }

  bool is_empty() const { return batches_.empty(); }
  /// Batches of training begun by this worker: the number of the next one.
  int64_t trained() const { return trained_; }
  /// With those of the workers that this one goes on for.
  int64_t all_trained() const { return earlier_ + trained_; }

  /// In place of what was counted so far.
  void resume(int64_t earlier) { earlier_ = earlier; }
  void return_to(int64_t trained) { trained_ = trained; }

 private:
  BatchInFlight& add(const PreparedProgram& prepared, const StepInput& input);

  const Model& model_;
  std::deque<BatchInFlight> batches_;
  int64_t earlier_ = 0;  ///< fed to the workers that this one goes on for
  int64_t trained_ = 0;  ///< fed to the training program so far
  int64_t first_ = 0;    ///< fed first after the pipeline was last empty
};

}  // namespace trireme
