// Buffers of layers (running statistics) on one worker.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "program/program.h"
#include "runtime/migrate/training_state.h"
#include "runtime/worker/context.h"

namespace trireme {

/// By node, in the order of the layer's specs.
using TensorsOfNodes = std::map<NodeId, std::vector<at::Tensor>>;

/// The region of buffer `index` of the op's layer that `rank` holds.
Box buffer_box(const Op& op, size_t index, const BufferSpec& spec, int rank);

/// This worker's parts of the regions, one set for the training and the evaluation program.
class LayerBuffers {
 public:
  /// `context` outlives it.
  explicit LayerBuffers(const WorkerContext& context) : context_(context) {}

  /// Buffers of an op of this worker. The first call makes them, with the values of the state that the run goes on
  /// from, else the model's initial values, else those of the layer.
  const std::vector<at::Tensor>& of(const Op& op);
  const TensorsOfNodes& all() const { return buffers_; }
  /// Those of the op, which has been asked for, with their place in the full tensors.
  void add_held(const Op& op, std::vector<HeldPart>& held) const;

 private:
  void give_initial(const std::string& name, const Box& box, at::Tensor& held) const;

  const WorkerContext& context_;
  TensorsOfNodes buffers_;
};

}  // namespace trireme
