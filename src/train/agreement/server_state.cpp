#include "train/agreement/server_state.h"

#include <ATen/ATen.h>

#include <string>

#include "runtime/replica_view.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/replicas.h"
#include "trireme/error.h"

namespace trireme {
namespace {

at::Tensor& tensor_of(TensorMap& tensors, const std::string& name, const Shape& shape,
                      const at::TensorOptions& options) {
  at::Tensor& tensor = tensors[name];
  if (!tensor.defined()) tensor = at::empty(shape, options);
  return tensor;
}

void add_weights(const Program& program, const at::TensorOptions& options, const std::vector<at::Tensor>& weights,
                 TensorMap& tensors) {
  const at::Tensor all = at::cat(weights).to(options.dtype());
  int64_t offset = 0;
  for (const Bucket& bucket : program.buckets) {
    if (bucket.contributors.empty()) continue;  // frozen
    check_internal(offset + bucket.elements <= all.numel(), "a server has all weights");
    const at::Tensor flat = all.narrow(0, offset, bucket.elements);
    offset += bucket.elements;
    for (const ParameterShard& shard : bucket.shards) {
      const ParameterSpec& spec = program.parameters[size_t(shard.parameter)].spec;
      part_of(tensor_of(tensors, spec.name, spec.shape, options), shard.box).copy_(view_of_shard(flat, shard));
    }
  }
  check_internal(offset == all.numel(), "a server has no more than all weights");
}

/// In the order in which the workers call ReplicaView::show.
void add_statistics(const Program& program, const Model& model, const std::vector<RunningStatistics>& statistics,
                    TensorMap& tensors) {
  auto next = statistics.begin();
  for (int rank = 0; rank < program.devices; ++rank)
    for (const Op& op : program.ops) {
      if (op.mesh.index_of(rank) < 0) continue;
      const std::vector<BufferSpec> specs = model.node(op.node).layer->buffers();
      for (const auto& [mean, variance] : statistics_indices(specs)) {
        check_internal(next != statistics.end(), "a server has all running statistics");
        const auto put = [&](size_t i, const at::Tensor& values) {
          const Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
          part_of(tensor_of(tensors, specs[i].name, specs[i].shape, values.options()), box)
              .copy_(values.view_as(part_of(tensors[specs[i].name], box)));
        };
        put(mean, next->mean);
        put(variance, next->variance);
        ++next;
      }
    }
  check_internal(next == statistics.end(), "a server has no more than all running statistics");
}

}  // namespace

TrainingState state_of_values(const Program& training, const Model& model, Precision precision, uint64_t seed,
                              const ModelValues& values) {
  TrainingState state;
  const auto options = at::TensorOptions().dtype(master_type(precision));
  add_weights(training, options, values.weights, state.weights);
  add_statistics(training, model, values.statistics, state.buffers);
  for (const auto& parameter : training.parameters) {
    const ParameterSpec& spec = parameter.spec;
    if (state.weights.contains(spec.name)) continue;
    const TensorMap* const given = model.initial_values() ? &model.initial_values()->tensors : nullptr;
    const bool is_given = given && given->contains(spec.name);
    state.weights[spec.name] = (is_given ? given->at(spec.name) : drawn_parameter(spec, seed)).to(options.dtype());
  }
  return state;
}

}  // namespace trireme
