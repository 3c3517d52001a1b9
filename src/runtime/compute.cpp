// Worker: loading samples, forward and backward of layers.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "runtime/worker_state.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;  // of the model's inputs; those after it are targets

}  // namespace

Shape Worker::State::global_shape(NodeId node, const MicroBatch& batch) const {
  Shape shape = current_model().node(node).sample_shape;
  shape.insert(shape.begin(), batch.samples.size());
  return shape;
}

/// Schedules without flush compute with older weights; right after the pipeline was empty there are none.
int64_t Worker::State::version_for(const Op& op) const {
  return is_training ? std::max(first_batch, current->number - op.delay) : batches;
}

void Worker::State::load(Prepared& prepared, int stage, MicroBatch& batch) {
  std::vector<std::pair<Range, std::vector<at::Tensor>>> fetched;  // data and targets of one range come together
  for (ValueId id : prepared.loaded[stage]) {
    const Value& value = prepared.program->values[size_t(id)];
    Box box = value.layout.box_of(rank, global_shape(value.node, batch));
    Range range{batch.samples.begin + box[0].begin, batch.samples.begin + box[0].end};
    auto it = std::find_if(fetched.begin(), fetched.end(), [&](const auto& f) { return f.first == range; });
    if (it == fetched.end()) {
      fetched.emplace_back(range, current->input.batch.load(range));
      it = std::prev(fetched.end());
    }
    at::Tensor tensor = it->second.at(size_t(value.node));
    for (size_t d = 1; d < box.size(); ++d) tensor = tensor.narrow(int64_t(d), box[d].begin, box[d].size());
    // a loss computes in float at least: what it compares with is not rounded before
    if (tensor.is_floating_point()) tensor = tensor.to(value.node == kData ? compute_type(precision) : master_type(precision));
    batch.values[size_t(id)] = tensor;
  }
}

void Worker::State::set_call(const Prepared& prepared, OpId id, const MicroBatch& batch, LayerCall& call) const {
  const OpBinding& binding = prepared.bindings[size_t(id)];
  const Value& output = prepared.program->values[size_t(binding.op->output)];
  call.training = is_training;
  call.seed = options.seed;
  call.step = current->input.step;
  call.batch_samples = current->input.batch.samples;
  call.micro_batch_samples = batch.samples.size();
  call.micro_batch = batch.index;
  call.micro_batches = prepared.program->micro_batches;
  call.option = &binding.op->option;
  call.output_box = output.layout.box_of(rank, global_shape(output.node, batch));
  call.first_sample = batch.samples.begin + call.output_box[0].begin;
  call.tensor_index = binding.tensor_index;
  call.tensor_degree = binding.op->mesh.tensor;
  call.batch_norm = options.batch_norm;
}

at::Tensor Worker::State::empty_output(const Op& op, const Box& box) const {
  bool is_loss = op.node == model.loss();
  auto type = is_loss ? master_type(precision) : compute_type(precision);
  return at::empty(shape_of(box), at::TensorOptions().dtype(type));
}

/// The state that the step before left, zeros at first and where the stream begins anew.
void Worker::State::bring_states(Prepared& prepared, OpId id, MicroBatch& batch, RuntimeLayerCall& call) {
  const Op& op = prepared.program->ops[size_t(id)];
  const auto specs = layer_of(op).states();
  if (specs.empty()) return;
  auto& carried = prepared.states[{op.node, batch.index}];
  if (current->input.starts_stream) carried.clear();
  for (size_t i = 0; i < specs.size(); ++i) {
    Shape shape = specs[i].sample_shape;
    shape.insert(shape.begin(), batch.samples.size());
    shape = shape_of(Layout{op.mesh, Placement::shard(0), op.option.states[i]}.box_of(rank, shape));
    if (i >= carried.size()) carried.push_back(at::zeros(shape, at::TensorOptions().dtype(compute_type(precision))));
    if (carried[i].sizes() != at::IntArrayRef(shape))
      fail_run({fmt::format("layer {}, state {}", model.node(op.node).name, specs[i].name),
                fmt::format("was left by {} samples, this batch has {}", carried[i].size(0), shape[0]),
                "a state goes on row by row", "use batches of one size"});
  }
  call.states = batch.states[id] = carried;
  call.next_states = carried;
}

void Worker::State::use_up(const Prepared& prepared, ValueId value, MicroBatch& batch) {
  ValueId source = prepared.program->forward_alias[size_t(value)];
  if (--batch.uses_left[size_t(source)] == 0) batch.values[size_t(source)].reset();
}

void Worker::State::run_layer(Prepared& prepared, OpId id, MicroBatch& batch, bool recomputing) {
  stop_if_aborted();
  OpBinding& binding = prepared.bindings[size_t(id)];
  const Op& op = *binding.op;
  const CallContext& context = is_training ? training_context : evaluation_context;
  auto& call = batch.calls[size_t(id)].emplace(binding, context, version_for(op));
  set_call(prepared, id, batch, call);
  call.recomputing = recomputing;
  if (!recomputing) bring_states(prepared, id, batch, call);
  else if (auto before = batch.states.find(id); before != batch.states.end()) call.states = before->second;
  std::vector<at::Tensor> inputs;
  for (ValueId v : op.inputs) {
    inputs.push_back(batch.values[size_t(prepared.program->forward_alias[size_t(v)])]);
    check_internal(inputs.back().defined(), "a layer's inputs are there when it runs");
  }
  if (binding.reads_rows()) call.rows = inputs[kRows];
  // a worker without samples still takes part where layers talk
  const bool idle = is_idle(op, call);
  at::Tensor output = idle ? empty_output(op, call.output_box) : layer_of(op).forward(call, inputs);
  inputs.clear();
  for (ValueId v : op.inputs) use_up(prepared, v, batch);
  if (!recomputing && !call.next_states.empty()) prepared.states[{op.node, batch.index}] = call.next_states;
  if (!recomputing && id == prepared.program->loss && !idle && counts_loss(binding)) outcome.loss_sum += output.sum(at::kDouble).item<double>();
  if (batch.uses_left[size_t(op.output)] > 0) batch.values[size_t(op.output)] = std::move(output);
}

void Worker::State::forward(Prepared& prepared, const Instruction& instruction, MicroBatch& batch) {
  await_weights(prepared, instruction.index);
  for (OpId id : prepared.program->segments[size_t(instruction.index)].ops) {
    run_layer(prepared, id, batch, false);
    const bool differentiated = prepared.program->values[size_t(prepared.program->ops[size_t(id)].output)].needs_gradient;
    if (!is_training || !instruction.keeps || !differentiated) batch.calls[size_t(id)].reset();
    if (!is_training || instruction.keeps) batch.states.erase(id);
  }
}

void Worker::State::recompute(Prepared& prepared, SegmentId segment, MicroBatch& batch) {
  const auto& ops = prepared.program->segments[size_t(segment)].ops;
  for (OpId id : ops) batch.uses_left[size_t(prepared.program->ops[size_t(id)].output)] = 0;
  for (ValueId value : prepared.program->recompute_reads[size_t(segment)].inside) ++batch.uses_left[size_t(value)];
  for (OpId id : ops) {
    run_layer(prepared, id, batch, true);
    batch.states.erase(id);
  }
}

void Worker::State::add_gradient(const Prepared& prepared, ValueId value, const at::Tensor& gradient, MicroBatch& batch) {
  at::Tensor& sum = batch.gradients[size_t(prepared.program->backward_alias[size_t(value)])];
  // out of place: a layer may hand the same tensor to several inputs
  sum = sum.defined() ? at::add(sum, gradient) : gradient;
}

/// Every worker of the tensor axis has the same losses, unless each has a summand.
bool Worker::State::counts_loss(const OpBinding& binding) const {
  return binding.tensor_index == 0 || binding.op->option.output.is_partial();
}

at::Tensor Worker::State::loss_gradient(const LayerCall& call) const {
  return at::full(shape_of(call.output_box), 1.0 / double(call.batch_samples), at::TensorOptions().dtype(master_type(precision)));
}

void Worker::State::backward_op(Prepared& prepared, OpId id, MicroBatch& batch, bool defer_parameters) {
  stop_if_aborted();
  OpBinding& binding = prepared.bindings[size_t(id)];
  const Op& op = *binding.op;
  auto& call = batch.calls[size_t(id)];
  if (!call) return;  // the loss does not depend on it, or nothing before it is trained
  at::Tensor gradient = id == prepared.program->loss ? loss_gradient(*call) : std::exchange(batch.gradients[size_t(op.output)], {});
  const bool idle = is_idle(op, *call);
  if (gradient.defined()) {
    call->defer_parameters = defer_parameters && op.splits_backward && !idle;
    std::vector<at::Tensor> inputs(op.inputs.size());
    if (!idle) inputs = layer_of(op).backward(*call, gradient);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& value = prepared.program->values[size_t(op.inputs[i])];
      if (!value.needs_gradient) continue;
      if (idle) inputs[i] = at::empty(shape_of(value.layout.box_of(rank, global_shape(value.node, batch))), gradient.options());
      if (inputs[i].defined()) add_gradient(prepared, op.inputs[i], inputs[i], batch);
    }
    if (call->defer_parameters) return;  // the call lives on until backward_weight
  }
  call.reset();
}

void Worker::State::backward(Prepared& prepared, const Instruction& instruction, MicroBatch& batch) {
  const auto& ops = prepared.program->segments[size_t(instruction.index)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id)
    backward_op(prepared, *id, batch, instruction.code == OpCode::backward_input);
}

void Worker::State::backward_weight(Prepared& prepared, SegmentId segment, MicroBatch& batch) {
  const auto& ops = prepared.program->segments[size_t(segment)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
    auto& call = batch.calls[size_t(*id)];
    if (!call) continue;
    stop_if_aborted();
    layer_of(prepared.program->ops[size_t(*id)]).backward_parameters(*call);
    call.reset();
  }
}

}  // namespace trireme
