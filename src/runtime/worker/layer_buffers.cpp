#include "runtime/worker/layer_buffers.h"

#include <ATen/ATen.h>

#include "base/devices/device.h"
#include "base/memory.h"
#include "runtime/replicas/flat_shard.h"

namespace trireme {

Box buffer_box(const Op& op, size_t index, const BufferSpec& spec, int rank) {
  return Layout{op.mesh, Placement::replicate(), op.option.buffers[index]}.box_of(rank, spec.shape);
}

const std::vector<at::Tensor>& LayerBuffers::of(const Op& op) {
  const auto [it, fresh] = buffers_.try_emplace(op.node);
  const auto specs = context_.model.node(op.node).layer->buffers();
  for (size_t i = 0; fresh && i < specs.size(); ++i) {
    const MemoryScope scope(MemoryCategory::buffers);
    const Box box = buffer_box(op, i, specs[i], context_.rank);
    it->second.push_back(at::full(shape_of(box), specs[i].initial, on_worker(master_type(context_.precision))));
    give_initial(specs[i].name, box, it->second.back());
  }
  return it->second;
}

/// Sets the initial values of a buffer of which this worker holds the region `box`.
void LayerBuffers::give_initial(const std::string& name, const Box& box, at::Tensor& held) const {
  const TrainingState* const resumed = context_.options.resumed;
  if (!resumed && !context_.model.initial_values()) return;
  const TensorMap& values = resumed ? resumed->buffers : context_.model.initial_values()->tensors;
  const auto given = values.find(name);
  if (given != values.end()) held.copy_(part_of(given->second, box));
}

void LayerBuffers::add_held(const Op& op, std::vector<HeldPart>& held) const {
  const auto specs = context_.model.node(op.node).layer->buffers();
  for (size_t i = 0; i < specs.size(); ++i)
    held.push_back(
        {specs[i].name, specs[i].shape, buffer_box(op, i, specs[i], context_.rank), buffers_.at(op.node)[i]});
}

}  // namespace trireme
