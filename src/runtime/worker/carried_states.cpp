#include "runtime/worker/carried_states.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>

#include "base/devices/device.h"
#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the rows and, on a tensor axis, the features of a layer's state that `rank` has of micro-batch `samples` of
/// a global batch.
Box carried_box(const Op& op, size_t index, int rank, const Range& samples, Shape shape) {
  shape.insert(shape.begin(), samples.size());
  Box box = Layout{op.mesh, Placement::shard(0), op.option.states[index]}.box_of(rank, shape);
  box[0] = {box[0].begin + samples.begin, box[0].end + samples.begin};
  return box;
}

std::string carried_name(const Model& model, const Op& op, const StateSpec& spec) {
  return model.node(op.node).name + "/" + spec.name;
}

}  // namespace

void CarriedStates::bring(const Op& op, const BatchInFlight& batch, const MicroBatch& part, RuntimeLayerCall& call) {
  const auto specs = batch.layer_of(op).states();
  if (specs.empty()) return;
  std::vector<at::Tensor>& carried = states_[{op.node, part.index}];
  if (batch.input.starts_stream) carried.clear();
  for (size_t i = 0; i < specs.size(); ++i) {
    Shape shape = specs[i].sample_shape;
    shape.insert(shape.begin(), part.samples.size());
    shape = shape_of(Layout{op.mesh, Placement::shard(0), op.option.states[i]}.box_of(context_.rank, shape));
    if (i >= carried.size()) carried.push_back(at::zeros(shape, on_worker(compute_type(context_.precision))));
    if (carried[i].sizes() != at::IntArrayRef(shape))
      fail_run({fmt::format("layer {}, state {}", context_.model.node(op.node).name, specs[i].name),
                fmt::format("has {} rows, but this batch has {} samples", carried[i].size(0), shape[0]),
                "each row of a state belongs to one row of the batch", "use batches of one size"});
  }
  call.states = call.next_states = carried;
}

void CarriedStates::keep(const Op& op, const MicroBatch& part, const RuntimeLayerCall& call) {
  if (!call.next_states.empty()) states_[{op.node, part.index}] = call.next_states;
}

void CarriedStates::add_held(const Op& op, std::vector<HeldPart>& held) const {
  const auto specs = context_.model.node(op.node).layer->states();
  for (int k = 0; k < program_.micro_batches && !specs.empty(); ++k) {
    const auto carried = states_.find({op.node, k});
    if (carried == states_.end()) continue;
    const Range samples = share_of(rows_, program_.micro_batches, k);
    for (size_t i = 0; i < specs.size() && i < carried->second.size(); ++i) {
      if (carried->second[i].numel() == 0) continue;  // a short batch has no row for this worker
      Shape shape = specs[i].sample_shape;
      shape.insert(shape.begin(), rows_);
      held.push_back({carried_name(context_.model, op, specs[i]), shape,
                      carried_box(op, i, context_.rank, samples, specs[i].sample_shape), carried->second[i]});
    }
  }
}

void CarriedStates::resume(const Op& op, const TrainingState& from) {
  const auto specs = context_.model.node(op.node).layer->states();
  for (int k = 0; k < program_.micro_batches && !specs.empty(); ++k) {
    std::vector<at::Tensor> mine;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto full = from.carried.find(carried_name(context_.model, op, specs[i]));
      if (full == from.carried.end()) break;
      rows_ = full->second.size(0);
      const Range samples = share_of(rows_, program_.micro_batches, k);
      const Box box = carried_box(op, i, context_.rank, samples, specs[i].sample_shape);
      mine.push_back(part_of(full->second, box)
                         .to(worker_place(), full->second.scalar_type(), false, true, at::MemoryFormat::Contiguous));
    }
    if (mine.size() == specs.size()) states_[{op.node, k}] = std::move(mine);
  }
}

}  // namespace trireme
