#include "model/layers/lstm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr int64_t kGates = 4;
enum Gate : int64_t { kInputGate, kForgetGate, kCellGate, kOutputGate };  // PyTorch's order
enum Parameter { kInputWeight, kHiddenWeight, kInputBias, kHiddenBias, kParameters };
enum State { kHidden, kCell, kStates };
// after forward; after a deferring backward the gates' gradients take the gates' place
enum Saved { kInput, kActivated, kPrevious, kCells };

bool by_unit(const LayerCall& call) { return call.option && call.option->output.is_shard(); }

/// The cell sums small changes over many steps: too much for bfloat16.
at::ScalarType cell_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

/// [4, units, k] as PyTorch's [4 * units, k].
at::Tensor as_matrix(const at::Tensor& weight) { return weight.reshape({kGates * weight.size(1), weight.size(2)}); }

/// `whole` [n, hidden] from every worker's `units` [n, hidden / t].
void gather_units(LayerCall& call, const at::Tensor& units, at::Tensor whole) {
  if (!by_unit(call)) {
    whole.copy_(units);
    return;
  }
  at::Tensor parts = at::empty({call.tensor_degree, units.size(0), units.size(1)}, units.options());
  std::vector<at::Tensor> outputs = parts.unbind(0);
  call.tensor_group().all_gather(units.contiguous(), outputs);
  whole.view({units.size(0), call.tensor_degree, units.size(1)}).copy_(parts.transpose(0, 1));
}

/// This worker's units of the sum over workers of `whole`.
at::Tensor scatter_units(LayerCall& call, const at::Tensor& whole) {
  if (!by_unit(call)) return whole;
  const int64_t n = whole.size(0), units = whole.size(1) / call.tensor_degree;
  at::Tensor parts = whole.view({n, call.tensor_degree, units}).transpose(0, 1).contiguous();
  std::vector<at::Tensor> inputs = parts.unbind(0);
  at::Tensor sum = at::empty({n, units}, whole.options());
  call.tensor_group().reduce_scatter(inputs, sum);
  return sum;
}

/// One step of the cell. gates [n, 4, units] are activated in place; cell, next_cell and hidden are [n, units].
void step_cell(const at::Tensor& gates, const at::Tensor& cell, at::Tensor next_cell, at::Tensor hidden) {
  gates.narrow(1, kInputGate, 2).sigmoid_();
  gates.select(1, kCellGate).tanh_();
  gates.select(1, kOutputGate).sigmoid_();
  at::mul_out(next_cell, gates.select(1, kForgetGate), cell);
  next_cell.add_(gates.select(1, kInputGate).to(cell.scalar_type()).mul(gates.select(1, kCellGate)));
  at::mul_out(hidden, gates.select(1, kOutputGate), next_cell.tanh());
}

/// Its adjoint: from dh and the later steps' dc, the gradients of the gates before activation; dc becomes that of `cell`.
void step_cell_backward(const at::Tensor& activated, const at::Tensor& cell, const at::Tensor& next_cell, const at::Tensor& dh,
                        at::Tensor& dc, const at::Tensor& gate_gradients) {
  const at::Tensor gates = activated.to(cell.scalar_type());
  auto gate = [&](Gate g) { return gates.select(1, g); };
  const at::Tensor squashed = next_cell.tanh();
  dc.add_(at::tanh_backward(dh * gate(kOutputGate), squashed));
  auto put = [&](Gate g, const at::Tensor& gradient) { gate_gradients.select(1, g).copy_(gradient); };
  put(kInputGate, at::sigmoid_backward(dc * gate(kCellGate), gate(kInputGate)));
  put(kForgetGate, at::sigmoid_backward(dc * cell, gate(kForgetGate)));
  put(kCellGate, at::tanh_backward(dc * gate(kInputGate), gate(kCellGate)));
  put(kOutputGate, at::sigmoid_backward(dh * squashed, gate(kOutputGate)));
  dc.mul_(gate(kForgetGate));
}

}  // namespace

Lstm::Lstm(std::string name, int64_t in, int64_t hidden, LstmOptions options)
    : Layer(std::move(name)), in_(in), hidden_(hidden), options_(std::move(options)) {
  if (options_.module.empty()) options_.module = this->name();
}

std::vector<ParameterSpec> Lstm::parameters() const {
  const double bound = 1 / std::sqrt(double(hidden_));
  const Init init = Init::uniform(-bound, bound);
  auto named = [&](const char* what) { return fmt::format("{}.{}_l{}", options_.module, what, options_.index); };
  return {{named("weight_ih"), {kGates, hidden_, in_}, init},
          {named("weight_hh"), {kGates, hidden_, hidden_}, init},
          {named("bias_ih"), {kGates, hidden_}, init},
          {named("bias_hh"), {kGates, hidden_}, init}};
}

std::vector<StateSpec> Lstm::states() const {
  if (!options_.stateful) return {};
  return {{name() + ".h", {hidden_}}, {name() + ".c", {hidden_}}};
}

Shape Lstm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[steps, features]");
  if (inputs[0][1] != in_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its last dim must be the {} input features of this layer", in_), "change the layer's input size");
  if (inputs[0][0] < 1)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])), "there is no step to compute",
               "use sequences of at least 1 step");
  return {inputs[0][0], hidden_};
}

std::vector<ShardingOption> Lstm::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, kParameters)};
  const size_t states = options_.stateful ? kStates : 0;
  options[0].states.assign(states, Placement::replicate());
  if (degree == 1 || hidden_ % degree != 0) return options;
  const std::vector<Placement> by_unit(kParameters, Placement::shard(1));
  options.push_back({.name = "hidden", .inputs = {Placement::replicate()}, .output = Placement::shard(2),
                     .input_gradients = {Placement::partial()}, .parameters = by_unit, .parameter_gradients = by_unit,
                     .states = std::vector<Placement>(states, Placement::shard(1)), .divides_work = true,
                     .talks_over_tensor_axis = true});
  return options;
}

double Lstm::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(inputs[0][0]) * double(kGates * hidden_) * double(in_ + hidden_);
}

at::Tensor Lstm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(kInputWeight);
  const at::Tensor input = inputs[0].to(weight.scalar_type()).contiguous();
  const int64_t n = input.size(0), steps = input.size(1), units = weight.size(1);
  const auto options = input.options(), cell_options = options.dtype(cell_type(input.scalar_type()));
  at::Tensor output = at::empty({n, steps, units}, options);
  at::Tensor previous = at::empty({n, steps, hidden_}, options);         // h before each step, all units
  at::Tensor cells = at::empty({n, steps + 1, units}, cell_options);     // c before each step and after the last
  at::Tensor gates = at::empty({n, steps, kGates * units}, options);
  call.saved = {input, gates, previous, cells};
  if (n == 0) return output;  // the same for all workers of the tensor axis

  const at::Tensor bias = (call.parameter(kInputBias) + call.parameter(kHiddenBias)).flatten();
  at::Tensor rows = gates.view({n * steps, kGates * units});
  at::addmm_out(rows, bias, input.view({n * steps, in_}), as_matrix(weight).t());
  const at::Tensor hidden_weight = as_matrix(call.parameter(kHiddenWeight)).t();
  if (options_.stateful) {
    cells.select(1, 0).copy_(call.state(kCell));
    gather_units(call, call.state(kHidden).to(input.scalar_type()), previous.select(1, 0));
  } else {
    cells.select(1, 0).zero_();
    previous.select(1, 0).zero_();
  }
  for (int64_t t = 0; t < steps; ++t) {
    if (t > 0) gather_units(call, output.select(1, t - 1), previous.select(1, t));
    at::Tensor now = gates.select(1, t);
    if (t > 0 || options_.stateful) now.addmm_(previous.select(1, t), hidden_weight);
    step_cell(now.view({n, kGates, units}), cells.select(1, t), cells.select(1, t + 1), output.select(1, t));
  }
  if (options_.stateful && !call.recomputing) {
    // copies: a view would keep the whole sequence alive
    call.set_state(kHidden, output.select(1, steps - 1).clone(at::MemoryFormat::Contiguous));
    call.set_state(kCell, cells.select(1, steps).clone(at::MemoryFormat::Contiguous));
  }
  return output;
}

at::Tensor Lstm::through_time(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor &activated = call.saved.at(kActivated), &cells = call.saved.at(kCells);
  const at::Tensor weight = as_matrix(call.parameter(kHiddenWeight));
  const int64_t n = cells.size(0), steps = activated.size(1), units = cells.size(2);
  at::Tensor gradients = at::empty_like(activated);
  at::Tensor later;  // gradient of h from the step after
  at::Tensor dc = at::zeros({n, units}, cells.options());
  for (int64_t t = steps - 1; t >= 0; --t) {
    at::Tensor dh = output_gradient.select(1, t).to(cells.scalar_type());
    if (later.defined()) dh = dh + later;
    at::Tensor now = gradients.select(1, t);
    step_cell_backward(activated.select(1, t).view({n, kGates, units}), cells.select(1, t), cells.select(1, t + 1), dh, dc,
                       now.view({n, kGates, units}));
    if (t > 0) later = scatter_units(call, at::mm(now, weight));
  }
  return gradients;
}

void Lstm::add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& previous,
                                   const at::Tensor& gate_gradients) const {
  const int64_t rows = input.size(0) * input.size(1);
  if (rows == 0) {
    add_zero_gradients(call, kParameters);
    return;
  }
  const at::Tensor gates = gate_gradients.view({rows, gate_gradients.size(2)});
  add_product_gradient(call, kInputWeight, gates, input.view({rows, in_}));
  add_product_gradient(call, kHiddenWeight, gates, previous.view({rows, hidden_}));
  if (!call.wants_gradient(kInputBias) && !call.wants_gradient(kHiddenBias)) return;
  const at::Tensor bias = gates.sum(0).view(call.parameter(kInputBias).sizes());
  for (int index : {kInputBias, kHiddenBias})
    if (call.wants_gradient(index)) call.add_gradient(index, bias);
}

std::vector<at::Tensor> Lstm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor input = call.saved.at(kInput), previous = call.saved.at(kPrevious);
  const int64_t n = input.size(0), steps = input.size(1);
  const at::Tensor gradients = n == 0 ? call.saved.at(kActivated) : through_time(call, output_gradient);
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0))
    input_gradient = at::mm(gradients.view({n * steps, gradients.size(2)}), as_matrix(call.parameter(kInputWeight))).view(input.sizes());
  if (call.defer_parameters)
    call.saved = {input, gradients, previous};
  else
    add_parameter_gradients(call, input, previous, gradients);
  return {input_gradient};
}

void Lstm::backward_parameters(LayerCall& call) const {
  add_parameter_gradients(call, call.saved.at(kInput), call.saved.at(kPrevious), call.saved.at(kActivated));
}

}  // namespace trireme
