#include "trireme/layers/lstm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/layer.h"

namespace trireme {
namespace {

constexpr int64_t kGates = 4;
enum LstmGate : int64_t { kLstmInputGate, kLstmForgetGate, kLstmCellGate, kLstmOutputGate };  // PyTorch's order
enum LstmParameter { kLstmInputWeight, kLstmHiddenWeight, kLstmInputBias, kLstmHiddenBias, kLstmProjection };
enum LstmState { kLstmHidden, kLstmCell, kLstmStates };
/// After forward; with a projection kLstmUnits, with padding kLstmReal (1 where a token is none) [n, steps, 1], and
/// during backward the gradients that parameters' are made of.
enum LstmSaved {
  kLstmInput,
  kLstmOutput,
  kLstmActivated,
  kLstmPrevious,
  kLstmCells,
  kLstmUnits,
  kLstmReal,
  kLstmGateGradients,
  kLstmProjectedGradients,
  kLstmSaved
};

/// Whether each worker holds a share of the hidden units.
bool by_unit(const LayerCall& call) { return call.option && call.option->name == "hidden"; }

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

/// h of a projecting layer: the sum over workers of what each projects from its units [n, local units]; weight
/// [projection, local units].
void project_units(LayerCall& call, const at::Tensor& units, const at::Tensor& weight, at::Tensor whole) {
  at::Tensor sum = at::mm(units, weight.t());
  if (by_unit(call)) call.tensor_group().all_reduce(sum);
  whole.copy_(sum);
}

/// One step of the cell. gates [n, 4, units] are activated in place; cell, next_cell and hidden are [n, units].
void step_cell(const at::Tensor& gates, const at::Tensor& cell, at::Tensor next_cell, at::Tensor hidden) {
  gates.narrow(1, kLstmInputGate, 2).sigmoid_();
  gates.select(1, kLstmCellGate).tanh_();
  gates.select(1, kLstmOutputGate).sigmoid_();
  at::mul_out(next_cell, gates.select(1, kLstmForgetGate), cell);
  next_cell.add_(gates.select(1, kLstmInputGate).to(cell.scalar_type()).mul(gates.select(1, kLstmCellGate)));
  at::mul_out(hidden, gates.select(1, kLstmOutputGate), next_cell.tanh());
}

/// Its adjoint: from dh and the later steps' dc, the gate gradients before activation. dc becomes that of `cell`.
void step_cell_backward(const at::Tensor& activated, const at::Tensor& cell, const at::Tensor& next_cell,
                        const at::Tensor& dh, at::Tensor& dc, const at::Tensor& gate_gradients) {
  const at::Tensor gates = activated.to(cell.scalar_type());
  auto gate = [&](LstmGate g) { return gates.select(1, g); };
  const at::Tensor squashed = next_cell.tanh();
  dc.add_(at::tanh_backward(dh * gate(kLstmOutputGate), squashed));
  auto put = [&](LstmGate g, const at::Tensor& gradient) { gate_gradients.select(1, g).copy_(gradient); };
  put(kLstmInputGate, at::sigmoid_backward(dc * gate(kLstmCellGate), gate(kLstmInputGate)));
  put(kLstmForgetGate, at::sigmoid_backward(dc * cell, gate(kLstmForgetGate)));
  put(kLstmCellGate, at::tanh_backward(dc * gate(kLstmInputGate), gate(kLstmCellGate)));
  put(kLstmOutputGate, at::sigmoid_backward(dh * squashed, gate(kLstmOutputGate)));
  dc.mul_(gate(kLstmForgetGate));
}

// -- export

/// A tensor of four gates in ONNX's order (input, output, forget, cell), with a dim for its directions.
at::Tensor in_onnx_order(const at::Tensor& gates) {
  const std::vector<at::Tensor> parts = gates.chunk(kGates, 0);
  std::vector<at::Tensor> order;
  for (int64_t gate : {kLstmInputGate, kLstmOutputGate, kLstmForgetGate, kLstmCellGate})
    order.push_back(parts[size_t(gate)]);
  return at::cat(order).unsqueeze(0);
}

/// One node after the other, as many steps as the samples have.
class OnnxSteps {
 public:
  OnnxSteps(OnnxWriter& w, const LstmOptions& options, int64_t hidden)
      : w_(w), reverse_(options.reverse), units_(hidden), steps_(w.shape()[0]) {
    const std::string rows = w.add("MatMul", {w.in(), w.transposed(w.parameter(kLstmInputWeight))});
    const std::string bias = w.add("Add", {w.parameter(kLstmInputBias), w.parameter(kLstmHiddenBias)});
    inputs_ = w.add("Add", {rows, bias});
    hidden_weight_ = w.transposed(w.parameter(kLstmHiddenWeight));
    if (options.projection > 0) projection_ = w.transposed(w.parameter(kLstmProjection));
    if (!options.padding) return;
    const std::string padding = w.add("Equal", {w.in(1), w.constant(int64_t{kPadding})});
    const std::string real = w.add("Cast", {w.add("Not", {padding})}, {{"to", OnnxWriter::kFloat}});
    real_ = w.add("Unsqueeze", {real, w.constant(List{2})});
  }

  std::string run() {
    std::vector<std::string> outputs(static_cast<size_t>(steps_));
    for (int64_t k = 0; k < steps_; ++k) {
      const int64_t at = reverse_ ? steps_ - 1 - k : k;
      step(at);
      outputs[size_t(at)] = w_.add("Unsqueeze", {hidden_, w_.constant(List{1})});
    }
    return w_.add("Concat", outputs, {{"axis", int64_t{1}}});
  }

 private:
  using List = OnnxWriter::List;

  std::string at_step(const std::string& sequence, int64_t at) {
    return w_.add("Gather", {sequence, w_.constant(at)}, {{"axis", int64_t{1}}});
  }

  std::string gate(const std::string& gates, int64_t i, const char* function) {
    const List begin{i * units_}, end{(i + 1) * units_}, dim{1};
    return w_.add(function, {w_.add("Slice", {gates, w_.constant(begin), w_.constant(end), w_.constant(dim)})});
  }

  void step(int64_t at) {
    std::string gates = at_step(inputs_, at);
    if (!hidden_.empty()) gates = w_.add("Add", {gates, w_.add("MatMul", {hidden_, hidden_weight_})});
    const std::string fresh =
        w_.add("Mul", {gate(gates, kLstmInputGate, "Sigmoid"), gate(gates, kLstmCellGate, "Tanh")});
    cell_ =
        cell_.empty() ? fresh : w_.add("Add", {w_.add("Mul", {gate(gates, kLstmForgetGate, "Sigmoid"), cell_}), fresh});
    hidden_ = w_.add("Mul", {gate(gates, kLstmOutputGate, "Sigmoid"), w_.add("Tanh", {cell_})});
    if (!real_.empty()) {
      const std::string real = at_step(real_, at);
      hidden_ = w_.add("Mul", {hidden_, real});
      cell_ = w_.add("Mul", {cell_, real});
    }
    if (!projection_.empty()) hidden_ = w_.add("MatMul", {hidden_, projection_});
  }

  OnnxWriter& w_;
  const bool reverse_;
  const int64_t units_, steps_;
  std::string inputs_, hidden_weight_, projection_, real_;  // of the whole sequence; "" where there is none
  std::string hidden_, cell_;                               // "": zeros
};

}  // namespace

Lstm::Lstm(std::string name, int64_t in, int64_t hidden, LstmOptions options)
    : Layer(std::move(name)), in_(in), hidden_(hidden), options_(std::move(options)) {
  if (options_.module.empty()) options_.module = this->name();
  if (options_.projection < 0 || (options_.projection > 0 && options_.projection >= hidden))
    fail_shape(*this, fmt::format("projection {} of {} hidden units", options_.projection, hidden),
               "it must be smaller than the number of hidden units", "choose a smaller projection, or 0 for none");
  if (options_.stateful && options_.reverse)
    fail_shape(*this, "reverse with stateful", "what comes next in a stream is not known yet", "leave one of them out");
}

std::vector<ParameterSpec> Lstm::parameters() const {
  const double bound = 1 / std::sqrt(double(hidden_));
  const Init init = Init::uniform(-bound, bound);
  auto named = [&](const char* what) {
    return fmt::format("{}.{}_l{}{}", options_.module, what, options_.index, options_.reverse ? "_reverse" : "");
  };
  const int64_t rows = kGates * hidden_;  // in PyTorch's files the gates lie behind each other
  std::vector<ParameterSpec> specs{
      {.name = named("weight_ih"), .shape = {kGates, hidden_, in_}, .init = init, .file_shape = {rows, in_}},
      {.name = named("weight_hh"),
       .shape = {kGates, hidden_, output_width()},
       .init = init,
       .file_shape = {rows, output_width()}},
      {.name = named("bias_ih"), .shape = {kGates, hidden_}, .init = init, .file_shape = {rows}},
      {.name = named("bias_hh"), .shape = {kGates, hidden_}, .init = init, .file_shape = {rows}}};
  if (options_.projection > 0) specs.push_back({named("weight_hr"), {options_.projection, hidden_}, init});
  return specs;
}

std::vector<StateSpec> Lstm::states() const {
  if (!options_.stateful) return {};
  return {{name() + ".h", {output_width()}}, {name() + ".c", {hidden_}}};
}

Attributes Lstm::attributes() const {
  return {{"projection", options_.projection}, {"padding", options_.padding}, {"reverse", options_.reverse}};
}

Shape Lstm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, size_t(input_count()));
  expect_rank(*this, inputs[0], 2, "[steps, features]");
  if (options_.padding && inputs[1] != Shape{inputs[0][0]})
    fail_shape(*this, fmt::format("token sample shape {} for inputs {}", to_string(inputs[1]), to_string(inputs[0])),
               "there must be one token per step", "give it the tokens that the inputs came from");
  if (inputs[0][1] != in_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its last dim must be the {} input features of this layer", in_),
               "change the layer's input size");
  if (inputs[0][0] < 1)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])), "there is no step to compute",
               "use sequences of at least 1 step");
  return {inputs[0][0], output_width()};
}

std::vector<ShardingOption> Lstm::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(input_count(), parameter_count())};
  const size_t states = options_.stateful ? kLstmStates : 0;
  options[0].states.assign(states, Placement::replicate());
  if (degree == 1 || hidden_ % degree != 0) return options;
  const bool projects = options_.projection > 0;
  const std::vector<Placement> by_unit(size_t(parameter_count()), Placement::shard(1));
  const Placement whole = Placement::replicate();
  std::vector<Placement> state_placements(states, Placement::shard(1));
  if (projects && states > 0) state_placements[kLstmHidden] = whole;
  std::vector<Placement> gradients(size_t(input_count()), whole);
  gradients[0] = Placement::partial();
  options.push_back({.name = "hidden",
                     .inputs = std::vector<Placement>(size_t(input_count()), whole),
                     .output = projects ? whole : Placement::shard(2),
                     .input_gradients = gradients,
                     .parameters = by_unit,
                     .parameter_gradients = by_unit,
                     .states = state_placements,
                     .divides_work = true,
                     .communicates_over_tensor_axis = true});
  return options;
}

double Lstm::forward_flops(std::span<const Shape> inputs) const {
  const double gates = double(kGates * hidden_) * double(in_ + output_width()),
               projection = double(options_.projection * hidden_);
  return 2.0 * double(inputs[0][0]) * (gates + projection);
}

at::Tensor Lstm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(kLstmInputWeight);
  const at::Tensor input = inputs[0].to(weight.scalar_type()).contiguous();
  const int64_t n = input.size(0), steps = input.size(1), units = weight.size(1);
  const bool projects = options_.projection > 0;
  const auto options = input.options(), cell_options = options.dtype(cell_type(input.scalar_type()));
  call.saved.assign(kLstmSaved, at::Tensor());
  call.saved[kLstmInput] = input;
  call.saved[kLstmActivated] = at::empty({n, steps, kGates * units}, options);
  call.saved[kLstmPrevious] = at::empty({n, steps, output_width()}, options);  // h before each step, of all units
  call.saved[kLstmCells] =
      at::empty({n, steps + 1, units}, cell_options);  // c before each step and after the last, in their order
  if (projects) call.saved[kLstmUnits] = at::empty({n, steps, units}, options);
  if (options_.padding) call.saved[kLstmReal] = inputs[1].ne(kPadding).unsqueeze(2);
  at::Tensor output = at::empty({n, steps, projects ? options_.projection : units}, options);
  if (n == 0) return output;  // the same for all workers of the tensor axis
  call.saved[kLstmOutput] = output;
  run_steps(call);
  call.saved[kLstmOutput].reset();  // backward does without it
  if (options_.stateful && !call.recomputing) {
    // copies: a view would keep the whole sequence alive
    call.set_state(kLstmHidden, output.select(1, steps - 1).clone(at::MemoryFormat::Contiguous));
    call.set_state(kLstmCell, call.saved[kLstmCells].select(1, steps).clone(at::MemoryFormat::Contiguous));
  }
  return output;
}

void Lstm::run_steps(LayerCall& call) const {
  const at::Tensor &input = call.saved[kLstmInput], &output = call.saved[kLstmOutput],
                   &gates = call.saved[kLstmActivated];
  const at::Tensor &previous = call.saved[kLstmPrevious], &cells = call.saved[kLstmCells];
  const bool projects = options_.projection > 0;
  const at::Tensor& units = projects ? call.saved[kLstmUnits] : output;
  const int64_t n = input.size(0), steps = input.size(1), local = cells.size(2);
  const at::Tensor bias = (call.parameter(kLstmInputBias) + call.parameter(kLstmHiddenBias)).flatten();
  at::Tensor rows = gates.view({n * steps, kGates * local});
  at::addmm_out(rows, bias, input.view({n * steps, in_}), as_matrix(call.parameter(kLstmInputWeight)).t());
  const at::Tensor hidden_weight = as_matrix(call.parameter(kLstmHiddenWeight)).t();
  const at::Tensor first = previous.select(1, position(0, steps));
  if (options_.stateful) {
    const at::Tensor state = call.state(kLstmHidden).to(input.scalar_type());
    cells.select(1, 0).copy_(call.state(kLstmCell));
    if (projects) first.copy_(state);
    else gather_units(call, state, first);
  } else {
    cells.select(1, 0).zero_();
    first.zero_();
  }
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t at = position(k, steps);
    if (k > 0) {
      const int64_t before = position(k - 1, steps);
      if (projects) previous.select(1, at).copy_(output.select(1, before));
      else gather_units(call, output.select(1, before), previous.select(1, at));
    }
    at::Tensor now = gates.select(1, at);
    if (k > 0 || options_.stateful) now.addmm_(previous.select(1, at), hidden_weight);
    step_cell(now.view({n, kGates, local}), cells.select(1, k), cells.select(1, k + 1), units.select(1, at));
    if (options_.padding) {
      const at::Tensor real = call.saved[kLstmReal].select(1, at);
      units.select(1, at).mul_(real);
      cells.select(1, k + 1).mul_(real);
    }
    if (projects) project_units(call, units.select(1, at), call.parameter(kLstmProjection), output.select(1, at));
  }
}

Lstm::Gradients Lstm::through_time(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor &activated = call.saved[kLstmActivated], &cells = call.saved[kLstmCells];
  const at::Tensor weight = as_matrix(call.parameter(kLstmHiddenWeight));
  const int64_t n = cells.size(0), steps = activated.size(1), local = cells.size(2);
  const bool projects = options_.projection > 0;
  Gradients gradients{at::empty_like(activated), {}};
  if (projects) gradients.projected = at::empty(output_gradient.sizes(), activated.options());
  at::Tensor later;  // gradient of h from the step after
  at::Tensor dc = at::zeros({n, local}, cells.options());
  for (int64_t k = steps - 1; k >= 0; --k) {
    const int64_t at = position(k, steps);
    at::Tensor dh = output_gradient.select(1, at).to(cells.scalar_type());
    if (later.defined()) dh = dh + later;
    if (projects) {
      at::Tensor of_projection = gradients.projected.select(1, at);
      of_projection.copy_(dh);
      dh = at::mm(of_projection, call.parameter(kLstmProjection)).to(cells.scalar_type());
    }
    if (options_.padding) {
      dh = at::mul(dh, call.saved[kLstmReal].select(1, at));
      dc.mul_(call.saved[kLstmReal].select(1, at));
    }
    at::Tensor now = gradients.gates.select(1, at);
    step_cell_backward(activated.select(1, at).view({n, kGates, local}), cells.select(1, k), cells.select(1, k + 1), dh,
                       dc, now.view({n, kGates, local}));
    if (k == 0) break;
    later = at::mm(now, weight);
    if (!projects) later = scatter_units(call, later);
    else if (by_unit(call)) call.tensor_group().all_reduce(later);
  }
  return gradients;
}

void Lstm::add_parameter_gradients(LayerCall& call) const {
  const at::Tensor& input = call.saved[kLstmInput];
  const int64_t rows = input.size(0) * input.size(1);
  if (rows == 0) {
    add_zero_gradients(call, parameter_count());
    return;
  }
  const at::Tensor gates = call.saved[kLstmGateGradients].flatten(0, 1);
  add_product_gradient(call, kLstmInputWeight, gates, input.view({rows, in_}));
  add_product_gradient(call, kLstmHiddenWeight, gates, call.saved[kLstmPrevious].flatten(0, 1));
  if (options_.projection > 0)
    add_product_gradient(call, kLstmProjection, call.saved[kLstmProjectedGradients].flatten(0, 1),
                         call.saved[kLstmUnits].flatten(0, 1));
  if (!call.wants_gradient(kLstmInputBias) && !call.wants_gradient(kLstmHiddenBias)) return;
  const at::Tensor bias = gates.sum(0).view(call.parameter(kLstmInputBias).sizes());
  for (int index : {kLstmInputBias, kLstmHiddenBias})
    if (call.wants_gradient(index)) call.add_gradient(index, bias);
}

std::vector<at::Tensor> Lstm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved[kLstmInput];
  const int64_t n = input.size(0), steps = input.size(1);
  Gradients gradients{call.saved[kLstmActivated], {}};
  if (n > 0) gradients = through_time(call, output_gradient);
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0))
    input_gradient =
        at::mm(gradients.gates.view({n * steps, gradients.gates.size(2)}), as_matrix(call.parameter(kLstmInputWeight)))
            .view(input.sizes());
  call.saved[kLstmGateGradients] = gradients.gates;
  call.saved[kLstmProjectedGradients] = gradients.projected;
  // not needed any more, and the call may live until backward_parameters
  call.saved[kLstmActivated].reset();
  call.saved[kLstmCells].reset();
  if (!call.defer_parameters) add_parameter_gradients(call);
  std::vector<at::Tensor> result(static_cast<size_t>(input_count()));  // tokens have no gradient
  result[0] = input_gradient;
  return result;
}

void Lstm::backward_parameters(LayerCall& call) const { add_parameter_gradients(call); }

LayerMemory Lstm::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  const int64_t n = call.samples, steps = call.inputs[0].shape[1], units = call.parameters[0].shape[1];
  const int64_t width = call.parameters[1].shape[2];  // of h, whole
  const bool projects = options_.projection > 0;
  const int64_t gates = n * steps * kGates * units * call.compute, step = n * units * call.master;
  memory.saved = gates + n * steps * width * call.compute + (steps + 1) * step;
  if (projects) memory.saved += n * steps * units * call.compute;
  if (options_.padding) {
    memory.saved += n * steps;
    memory.input_gradients[1] = 0;
  }
  const int64_t biases = kGates * units * call.compute;
  memory.forward_workspace = biases + 2 * step;
  const int64_t projected = projects ? call.output.bytes() : 0;
  const int64_t x = call.wanted[0] ? call.inputs[0].bytes() : 0;
  set_backward_peak(memory, {gates + projected + 5 * step + n * width * call.compute, gates + projected + x + biases});
  return memory;
}

/// All steps' products with the inputs are one; then a product, which reads the hidden weights again, and the cell in
/// each step.
std::vector<OperatorWork> Lstm::work(const CallShapes& call, double flops, Pass) const {
  const auto steps = double(call.inputs[0].shape[1]);
  std::vector<OperatorWork> work = one_pass(call, flops, 1 + 2 * steps, true);
  work[0].bytes += (steps - 1) * double(call.parameters[1].bytes());
  return work;
}

/// Exchanges h before every step; before the first step only if h is carried over. With a projection, after every step.
/// Backward exchanges the gradient of h between two steps.
LayerExchanges Lstm::exchanges(const CallShapes& call) const {
  const auto steps = double(call.inputs[0].shape[1]), samples = double(call.samples);
  if (options_.projection > 0) {
    const double h = samples * double(call.parameters[kLstmProjection].shape[0] * call.compute);
    return {{{RedistributionKind::all_reduce, h, steps}}, {{RedistributionKind::all_reduce, h, steps - 1}}};
  }
  const double h = samples * double(call.parameters[1].shape[1] * call.tensor * call.compute);
  const double before = options_.stateful ? steps : steps - 1;
  return {{{RedistributionKind::all_gather, h, before}}, {{RedistributionKind::reduce_scatter, h, steps - 1}}};
}

/// ONNX's LSTM where it has one; it has none with projections and padding.
std::string Lstm::to_onnx(OnnxWriter& w) const {
  if (options_.projection > 0 || options_.padding) return OnnxSteps(w, options_, hidden_).run();
  using List = OnnxWriter::List;
  const std::string input_weight = w.constant(in_onnx_order(w.value(kLstmInputWeight))),
                    hidden_weight = w.constant(in_onnx_order(w.value(kLstmHiddenWeight)));
  const std::string bias =
      w.constant(at::cat({in_onnx_order(w.value(kLstmInputBias)), in_onnx_order(w.value(kLstmHiddenBias))}, 1));
  const std::string steps_first = w.add("Transpose", {w.in()}, {{"perm", List{1, 0, 2}}});
  const std::string y =
      w.add("LSTM", {steps_first, input_weight, hidden_weight, bias},
            {{"hidden_size", w.shape().back()}, {"direction", std::string(options_.reverse ? "reverse" : "forward")}});
  return w.add("Transpose", {w.add("Squeeze", {y, w.constant(List{1})})},
               {{"perm", List{1, 0, 2}}});  // [steps, 1, n, hidden]
}

void Lstm::to_script(ScriptWriter& w) const {
  if (options_.padding) return script_steps(w);
  const std::string x = options_.reverse ? fmt::format("torch.flip({}, [1])", w.in()) : w.in();
  std::vector<std::string> weights;
  for (int i = 0; i < parameter_count(); ++i) weights.push_back(w.parameter(size_t(i)));
  const auto zeros = [&](int64_t width) { return fmt::format("{0}.new_zeros([1, {0}.size(0), {1}])", w.in(), width); };
  w.line(fmt::format("{}, {}, {} = torch.lstm({}, [{}, {}], [{}], True, 1, 0.0, False, False, True)", w.out(),
                     w.own("hidden"), w.own("cell"), x, zeros(output_width()), zeros(hidden_),
                     fmt::join(weights, ", ")));
  if (options_.reverse) w.result(fmt::format("torch.flip({}, [1])", w.out()));
}

/// At padding h and c are zero.
void Lstm::script_steps(ScriptWriter& w) const {
  const std::string h = w.own("h"), c = w.own("c"), g = w.own("gates"), real = w.own("real"), at = w.own("at"),
                    k = w.own("k"), steps = w.own("steps");
  const auto gate = [&](int64_t i) { return fmt::format("torch.narrow({}, 1, {}, {})", g, i * hidden_, hidden_); };
  w.set(h, fmt::format("{0}.new_zeros([{0}.size(0), {1}])", w.in(), output_width()));
  w.set(c, fmt::format("{0}.new_zeros([{0}.size(0), {1}])", w.in(), hidden_));
  w.set(steps, "[]");
  w.line(fmt::format("for {} in range({}.size(1)):", k, w.in()));
  w.line("  " + fmt::format("{} = {}", at, options_.reverse ? fmt::format("{}.size(1) - 1 - {}", w.in(), k) : k));
  w.line("  " + fmt::format("{} = torch.unsqueeze(torch.ne(torch.select({}, 1, {}), {}), 1).type_as({})", real, w.in(1),
                            at, kPadding, w.in()));
  w.line("  " + fmt::format("{} = torch.add(torch.linear(torch.select({}, 1, {}), {}, {}), torch.linear({}, {}, {}))",
                            g, w.in(), at, w.parameter(kLstmInputWeight), w.parameter(kLstmInputBias), h,
                            w.parameter(kLstmHiddenWeight), w.parameter(kLstmHiddenBias)));
  w.line(
      "  " +
      fmt::format("{0} = torch.add(torch.mul(torch.sigmoid({1}), {0}), torch.mul(torch.sigmoid({2}), torch.tanh({3})))",
                  c, gate(kLstmForgetGate), gate(kLstmInputGate), gate(kLstmCellGate)));
  w.line("  " + fmt::format("{} = torch.mul(torch.mul(torch.sigmoid({}), torch.tanh({})), {})", h,
                            gate(kLstmOutputGate), c, real));
  w.line("  " + fmt::format("{0} = torch.mul({0}, {1})", c, real));
  if (options_.projection > 0)
    w.line("  " + fmt::format("{0} = torch.linear({0}, {1})", h, w.parameter(kLstmProjection)));
  w.line("  " + fmt::format("{}.append({})", steps, h));
  w.result(fmt::format("torch.stack({}, 1)", steps));
  if (options_.reverse) w.result(fmt::format("torch.flip({}, [1])", w.out()));
}

}  // namespace trireme
