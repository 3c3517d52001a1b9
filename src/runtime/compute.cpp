// Worker: loading samples, forward and backward of layers.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "runtime/worker_state.h"

namespace trireme {

Shape Worker::State::global_shape(NodeId node, const MicroBatch& batch) const {
  Shape shape = model.node(node).sample_shape;
  shape.insert(shape.begin(), batch.samples.size());
  return shape;
}

void Worker::State::load(Prepared& prepared, int k) {
  MicroBatch& batch = micro_batches[size_t(k)];
  std::vector<std::pair<Range, std::vector<at::Tensor>>> fetched;  // data and targets of one range come together
  for (ValueId id : prepared.loaded) {
    const Value& value = prepared.program->values[size_t(id)];
    Box box = value.layout.box_of(rank, global_shape(value.node, batch));
    Range range{batch.samples.begin + box[0].begin, batch.samples.begin + box[0].end};
    auto it = std::find_if(fetched.begin(), fetched.end(), [&](const auto& f) { return f.first == range; });
    if (it == fetched.end()) {
      fetched.emplace_back(range, input->batch.load(range));
      it = std::prev(fetched.end());
    }
    at::Tensor tensor = it->second.at(size_t(value.node));
    for (size_t d = 1; d < box.size(); ++d) tensor = tensor.narrow(int64_t(d), box[d].begin, box[d].size());
    if (tensor.is_floating_point()) tensor = tensor.to(compute_type(store.precision()));
    batch.values[size_t(id)] = tensor;
  }
}

void Worker::State::set_call(const Prepared& prepared, OpId id, const MicroBatch& batch, LayerCall& call) const {
  const OpBinding& binding = prepared.bindings[size_t(id)];
  const Value& output = prepared.program->values[size_t(binding.op->output)];
  call.training = is_training;
  call.seed = options.seed;
  call.step = input->step;
  call.batch_samples = input->batch.samples;
  call.micro_batch_samples = batch.samples.size();
  call.option = &binding.op->option;
  call.output_box = output.layout.box_of(rank, global_shape(output.node, batch));
  call.first_sample = batch.samples.begin + call.output_box[0].begin;
  call.tensor_index = binding.tensor_index;
  call.tensor_degree = binding.op->mesh.tensor;
  call.batch_norm = options.batch_norm;
}

at::Tensor Worker::State::empty_output(const Op& op, const Box& box) const {
  bool is_loss = op.node == model.loss();
  auto type = is_loss ? master_type(store.precision()) : compute_type(store.precision());
  return at::empty(shape_of(box), at::TensorOptions().dtype(type));
}

void Worker::State::use_up(const Prepared& prepared, ValueId value, MicroBatch& batch) {
  ValueId source = prepared.forward_alias[size_t(value)];
  if (--batch.uses_left[size_t(source)] == 0) batch.values[size_t(source)].reset();
}

void Worker::State::forward_op(Prepared& prepared, OpId id, MicroBatch& batch) {
  stop_if_aborted();
  OpBinding& binding = prepared.bindings[size_t(id)];
  const Op& op = *binding.op;
  auto& call = batch.calls[size_t(id)].emplace(binding, outcome.metrics);
  set_call(prepared, id, batch, call);
  std::vector<at::Tensor> inputs;
  for (ValueId v : op.inputs) {
    inputs.push_back(batch.values[size_t(prepared.forward_alias[size_t(v)])]);
    check_internal(inputs.back().defined(), "a layer's inputs are there when it runs");
  }
  // a worker without samples still takes part where layers talk
  const bool idle = call.output_box[0].empty() && !op.talks;
  at::Tensor output = idle ? empty_output(op, call.output_box) : binding.layer->forward(call, inputs);
  inputs.clear();
  for (ValueId v : op.inputs) use_up(prepared, v, batch);
  if (id == prepared.program->loss && binding.tensor_index == 0 && !idle) outcome.loss_sum += output.sum(at::kDouble).item<double>();
  if (prepared.uses[size_t(op.output)] > 0) batch.values[size_t(op.output)] = std::move(output);
  if (!is_training) batch.calls[size_t(id)].reset();
}

void Worker::State::forward(Prepared& prepared, const Instruction& instruction) {
  if (instruction.micro_batch == 0) wait_for_weights(prepared, instruction.index);
  MicroBatch& batch = micro_batches[size_t(instruction.micro_batch)];
  for (OpId id : prepared.program->segments[size_t(instruction.index)].ops) forward_op(prepared, id, batch);
}

void Worker::State::add_gradient(const Prepared& prepared, ValueId value, const at::Tensor& gradient, MicroBatch& batch) {
  at::Tensor& sum = batch.gradients[size_t(prepared.backward_alias[size_t(value)])];
  // out of place: a layer may hand the same tensor to several inputs
  sum = sum.defined() ? at::add(sum, gradient) : gradient;
}

void Worker::State::backward_op(Prepared& prepared, OpId id, MicroBatch& batch) {
  stop_if_aborted();
  OpBinding& binding = prepared.bindings[size_t(id)];
  const Op& op = *binding.op;
  auto& call = batch.calls[size_t(id)];
  at::Tensor gradient;
  if (id == prepared.program->loss) {
    auto type = at::TensorOptions().dtype(master_type(store.precision()));
    gradient = at::full(shape_of(call->output_box), 1.0 / double(call->batch_samples), type);
  } else {
    gradient = std::move(batch.gradients[size_t(op.output)]);
    batch.gradients[size_t(op.output)] = at::Tensor();
  }
  const bool idle = call->output_box[0].empty() && !op.talks;
  if (prepared.program->values[size_t(op.output)].needs_gradient && gradient.defined()) {
    std::vector<at::Tensor> inputs(op.inputs.size());
    if (!idle) inputs = binding.layer->backward(*call, gradient);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& value = prepared.program->values[size_t(op.inputs[i])];
      if (!value.needs_gradient) continue;
      if (idle) inputs[i] = at::empty(shape_of(value.layout.box_of(rank, global_shape(value.node, batch))), gradient.options());
      if (inputs[i].defined()) add_gradient(prepared, op.inputs[i], inputs[i], batch);
    }
  }
  call.reset();
}

void Worker::State::backward(Prepared& prepared, const Instruction& instruction) {
  MicroBatch& batch = micro_batches[size_t(instruction.micro_batch)];
  const auto& ops = prepared.program->segments[size_t(instruction.index)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id) backward_op(prepared, *id, batch);
}

}  // namespace trireme
