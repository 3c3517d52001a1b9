#include "train/trained_weights.h"

#include <ATen/ATen.h>

#include "base/memory.h"

namespace trireme {

void TrainedWeights::add_parameters(const ParameterStore& store) {
  std::lock_guard lock(mutex_);
  for (int p = 0; p < int(program_.parameters.size()); ++p) tensors_[program_.parameters[size_t(p)].spec.name] = store.full_parameter(p);
}

void TrainedWeights::add_buffers(int rank, const Worker& worker) {
  std::lock_guard lock(mutex_);
  for (OpId id = 0; id < OpId(program_.ops.size()); ++id) {
    const Op& op = program_.ops[size_t(id)];
    if (op.mesh.index_of(rank) < 0 || op.mesh.data_index(rank) != 0) continue;
    const std::vector<at::Tensor>* held = worker.buffers(id);
    const auto specs = model_.node(op.node).layer->buffers();
    for (size_t i = 0; held && i < specs.size(); ++i) {
      at::Tensor& full = tensors_[specs[i].name];
      if (!full.defined()) full = at::empty(specs[i].shape, (*held)[i].options());
      const Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
      at::Tensor part = full;
      for (size_t d = 0; d < box.size(); ++d) part = part.narrow(int64_t(d), box[d].begin, box[d].size());
      part.copy_((*held)[i]);
    }
  }
}

void TrainedWeights::gather(int rank, Worker& worker, const ParameterStore& store) {
  DeviceScope nobody(kNoDevice);
  worker.settle(/*averaged=*/true);
  worker.barrier();
  if (rank == 0) add_parameters(store);
  add_buffers(rank, worker);
  worker.barrier();
}

}  // namespace trireme
