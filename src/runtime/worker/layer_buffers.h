// The buffers (running statistics) of layers on one worker.
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

/// Returns the region of buffer `index` of the op's layer that `rank` holds.
Box buffer_box(const Op& op, size_t index, const BufferSpec& spec, int rank);

/// This worker's buffers, one set for both the training and the evaluation program.
class LayerBuffers {
 public:
  /// `context` must outlive this object.
  explicit LayerBuffers(const WorkerContext& context) : context_(context) {}

  /// Returns the buffers of an op of this worker. The first call creates them, with the values of the state that the
  /// run resumes, otherwise the model's initial values, otherwise those of the layer.
  const std::vector<at::Tensor>& of(const Op& op);
  const TensorsOfNodes& all() const { return buffers_; }
  /// Adds the op's buffers with their regions in the full tensors. of(op) must have been called before.
  void add_held(const Op& op, std::vector<HeldPart>& held) const;

 private:
  void give_initial(const std::string& name, const Box& box, at::Tensor& held) const;

  const WorkerContext& context_;
  TensorsOfNodes buffers_;
};

}  // namespace trireme
