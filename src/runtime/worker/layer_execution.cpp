#include "runtime/worker/layer_execution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/devices/device.h"
#include "base/memory.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;  // index of the model's data input; the inputs after it are targets

/// A worker without samples takes part only if the layer communicates.
bool is_idle(const Op& op, const Box& output) { return output[0].empty() && !op.communicates; }

/// True if this worker counts its losses. If all workers of the tensor axis have whole losses, only the first counts
/// them; if each has a summand, all do.
bool counts_loss(const OpBinding& binding) {
  return binding.tensor_index == 0 || binding.op->option.output.is_partial();
}

}  // namespace

LayerExecution::LayerExecution(const WorkerContext& context, PreparedProgram& prepared, DeferredNumbers& numbers,
                               StepOutcome& outcome)
    : context_(context),
      prepared_(prepared),
      program_(*prepared.program),
      numbers_(numbers),
      call_context_{&program_, &context.replicas, &outcome.metrics, &numbers, &reads_step_},
      states_(context, program_) {}

void LayerExecution::load(int stage, const BatchInFlight& batch, MicroBatch& part) {
  std::vector<std::pair<Range, std::vector<at::Tensor>>> fetched;  // data and targets of one range come together
  for (ValueId id : prepared_.loaded[stage]) {
    const Value& value = program_.values[size_t(id)];
    Box box = value.layout.box_of(context_.rank, batch.global_shape(value.node, part));
    Range range{part.samples.begin + box[0].begin, part.samples.begin + box[0].end};
    auto it = std::find_if(fetched.begin(), fetched.end(), [&](const auto& f) { return f.first == range; });
    if (it == fetched.end()) {
      fetched.emplace_back(range, batch.input.batch.load(range));
      it = std::prev(fetched.end());
    }
    at::Tensor tensor = it->second.at(size_t(value.node));
    for (size_t d = 1; d < box.size(); ++d) tensor = tensor.narrow(int64_t(d), box[d].begin, box[d].size());
    // A loss computes at least in float32; its targets are not rounded before that.
    const auto type = value.node == kData ? compute_type(context_.precision) : master_type(context_.precision);
    tensor = tensor.to(worker_place(), tensor.is_floating_point() ? type : tensor.scalar_type());
    part.values[size_t(id)] = tensor;
  }
}

Box LayerExecution::output_box(const Op& op, const BatchInFlight& batch, const MicroBatch& part) const {
  const Value& output = program_.values[size_t(op.output)];
  return output.layout.box_of(context_.rank, batch.global_shape(output.node, part));
}

std::pair<int, int> LayerExecution::place_among_micro_batches(const Op& op, const BatchInFlight& batch,
                                                              const MicroBatch& part) const {
  // Micro-batches have two sizes, the larger ones first, and this worker's share depends on the size alone.
  const auto runs = [&](const MicroBatch& m) { return !is_idle(op, output_box(op, batch, m)); };
  const MicroBatch &first = batch.micro_batches.front(), &last = batch.micro_batches.back();
  const int all = int(batch.micro_batches.size());
  const bool is_even = first.samples.size() == last.samples.size();
  const int larger = is_even ? all : int(batch.input.batch.samples % all);
  const int larger_run = runs(first) ? larger : 0, smaller_run = runs(last) ? all - larger : 0;
  return {part.index < larger ? part.index : larger_run + part.index - larger, larger_run + smaller_run};
}

void LayerExecution::set_call(const OpBinding& binding, const BatchInFlight& batch, const MicroBatch& part,
                              LayerCall& call) const {
  call.training = program_.training;
  call.seed = context_.options.seed;
  call.step = batch.input.step;
  call.batch_samples = batch.input.batch.samples;
  call.micro_batch_samples = part.samples.size();
  std::tie(call.micro_batch, call.micro_batches) = place_among_micro_batches(*binding.op, batch, part);
  call.option = &binding.op->option;
  call.output_box = output_box(*binding.op, batch, part);
  call.first_sample = part.samples.begin + call.output_box[0].begin;
  call.tensor_index = binding.tensor_index;
  call.tensor_degree = binding.op->mesh.tensor;
  call.batch_norm = context_.options.batch_norm;
}

at::Tensor LayerExecution::empty_output(const Op& op, const Box& box) const {
  const bool is_loss = op.node == context_.model.loss();
  const auto type = is_loss ? master_type(context_.precision) : compute_type(context_.precision);
  return at::empty(shape_of(box), on_worker(type));
}

void LayerExecution::bring_states(OpId id, const BatchInFlight& batch, MicroBatch& part, RuntimeLayerCall& call) {
  if (call.recomputing) {
    if (const auto before = part.states.find(id); before != part.states.end()) call.states = before->second;
    return;
  }
  states_.bring(op_at(id), batch, part, call);
  if (!call.states.empty()) part.states[id] = call.states;
}

void LayerExecution::run_layer(OpId id, const BatchInFlight& batch, MicroBatch& part, Run run) {
  context_.stop_if_aborted();
  check_memory_limit();
  OpBinding& binding = prepared_.bindings[size_t(id)];
  const Op& op = *binding.op;
  auto& call = part.calls[size_t(id)].emplace(binding, call_context_, batch.version_for(op));
  set_call(binding, batch, part, call);
  call.recomputing = run != Run::first;
  bring_states(id, batch, part, call);
  std::vector<at::Tensor> inputs;
  for (ValueId v : op.inputs) {
    inputs.push_back(part.values[size_t(program_.forward_alias[size_t(v)])]);
    check_internal(inputs.back().defined(), "a layer's inputs are there when it runs");
  }
  if (binding.reads_rows()) call.rows = inputs[kRows];
  const bool idle = is_idle(op, call.output_box);
  at::Tensor output;
  if (run == Run::restoring) {
    if (!idle) batch.layer_of(op).restore(call, inputs);
  } else {
    output = idle ? empty_output(op, call.output_box) : batch.layer_of(op).forward(call, inputs);
  }
  reads_step_ |= call.step.was_read();
  inputs.clear();
  for (ValueId v : op.inputs) part.use_up(program_, v);
  if (run == Run::first) {
    states_.keep(op, part, call);
    if (id == program_.loss && !idle && counts_loss(binding)) numbers_.add_loss(output.sum(at::kDouble));
  }
  if (part.uses_left[size_t(op.output)] > 0) part.values[size_t(op.output)] = std::move(output);
}

void LayerExecution::await_weights(SegmentId segment, const BatchInFlight& batch) {
  for (OpId id : program_.segments[size_t(segment)].ops) {
    const int64_t version = batch.version_for(op_at(id));
    for (const ParameterBinding& p : prepared_.bindings[size_t(id)].parameters)
      context_.replicas.await_weights(p.bucket, version);
  }
}

void LayerExecution::forward(const Instruction& instruction, const BatchInFlight& batch, MicroBatch& part) {
  await_weights(instruction.index, batch);
  const bool is_training = program_.training;
  for (OpId id : program_.segments[size_t(instruction.index)].ops) {
    run_layer(id, batch, part, Run::first);
    const bool differentiated = program_.values[size_t(op_at(id).output)].needs_gradient;
    if (!is_training || !instruction.keeps || !differentiated) part.calls[size_t(id)].reset();
    if (!is_training || instruction.keeps) part.states.erase(id);
  }
}

void LayerExecution::recompute(SegmentId segment, const BatchInFlight& batch, MicroBatch& part) {
  const auto& ops = program_.segments[size_t(segment)].ops;
  if (const RecomputedRun* run = program_.run_begun_by(segment)) {
    for (ValueId value : run->made) part.uses_left[size_t(value)] = 0;
    for (ValueId value : run->inside) ++part.uses_left[size_t(value)];
  }
  for (OpId id : ops) {
    run_layer(id, batch, part, program_.is_restored(segment, id) ? Run::restoring : Run::again);
    part.states.erase(id);
  }
}

at::Tensor LayerExecution::loss_gradient(const LayerCall& call) const {
  return at::full(shape_of(call.output_box), 1.0 / double(call.batch_samples),
                  on_worker(master_type(context_.precision)));
}

void LayerExecution::backward_op(OpId id, const BatchInFlight& batch, MicroBatch& part, bool defer_parameters) {
  context_.stop_if_aborted();
  check_memory_limit();
  const Op& op = op_at(id);
  auto& call = part.calls[size_t(id)];
  if (!call) return;  // the loss does not depend on it, or no parameter before it is trained
  at::Tensor gradient =
      id == program_.loss ? loss_gradient(*call) : std::exchange(part.gradients[size_t(op.output)], {});
  const bool idle = is_idle(op, call->output_box);
  if (gradient.defined()) {
    call->defer_parameters = defer_parameters && op.splits_backward && !idle;
    std::vector<at::Tensor> inputs(op.inputs.size());
    if (!idle) inputs = batch.layer_of(op).backward(*call, gradient);
    reads_step_ |= call->step.was_read();
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& value = program_.values[size_t(op.inputs[i])];
      if (!value.needs_gradient) continue;
      if (idle)
        inputs[i] = at::empty(shape_of(value.layout.box_of(context_.rank, batch.global_shape(value.node, part))),
                              gradient.options());
      if (inputs[i].defined()) part.add_gradient(program_, op.inputs[i], inputs[i]);
    }
    if (call->defer_parameters) return;  // the call is needed until backward_weight
  }
  call.reset();
}

void LayerExecution::backward(const Instruction& instruction, const BatchInFlight& batch, MicroBatch& part) {
  const auto& ops = program_.segments[size_t(instruction.index)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id)
    backward_op(*id, batch, part, instruction.code == OpCode::backward_input);
}

void LayerExecution::backward_weight(SegmentId segment, const BatchInFlight& batch, MicroBatch& part) {
  const auto& ops = program_.segments[size_t(segment)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
    auto& call = part.calls[size_t(*id)];
    if (!call) continue;
    context_.stop_if_aborted();
    batch.layer_of(op_at(*id)).backward_parameters(*call);
    reads_step_ |= call->step.was_read();
    call.reset();
  }
}

void LayerExecution::synchronize_buffers(OpId id) {
  OpBinding& binding = prepared_.bindings[size_t(id)];
  for (at::Tensor& buffer : binding.buffers) binding.data_group->broadcast(buffer, 0);
}

}  // namespace trireme
