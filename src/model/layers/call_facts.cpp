#include "model/layers/call_facts.h"

#include <algorithm>

namespace trireme {

LayerMemory plain_memory(const CallShapes& call) {
  LayerMemory memory{.output = call.output.bytes(),
                     .keeps_input = std::vector<bool>(call.inputs.size(), false),
                     .input_gradients = {}};
  for (size_t i = 0; i < call.inputs.size(); ++i)
    memory.input_gradients.push_back(call.wanted[i] ? call.inputs[i].bytes() : 0);
  return memory;
}

LayerMemory keeping_input(const CallShapes& call) {
  LayerMemory memory = plain_memory(call);
  memory.keeps_input[0] = true;
  return memory;
}

LayerMemory keeping_output(const CallShapes& call) {
  LayerMemory memory = plain_memory(call);
  memory.keeps_output = true;
  return memory;
}

LayerMemory renamed_memory(const CallShapes& call, int64_t saved) {
  LayerMemory memory = plain_memory(call);
  memory.output = 0;
  memory.output_shares_input = 0;
  memory.saved = saved;
  memory.input_gradients.assign(call.inputs.size(), 0);
  return memory;
}

int64_t halo_input_bytes(const CallShapes& call, const Window& rows) {
  const CallTensor& x = call.inputs[0];
  const Halo halo = halo_of(rows);
  if (call.tensor == 1 || call.option->inputs[0] != Placement::shard(2) || halo.none() || x.shape.size() != 4) return 0;
  return x.bytes() / x.shape[2] * (halo.above + x.shape[2] + halo.below);
}

LayerMemory window_memory(const CallShapes& call, const Window& rows) {
  LayerMemory memory = plain_memory(call);
  const int64_t extended = halo_input_bytes(call, rows);
  if (extended == 0) memory.keeps_input[0] = true;
  memory.saved = memory.backward_workspace = extended;
  return memory;
}

void set_forward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments) {
  memory.forward_workspace = std::max<int64_t>(0, std::max(moments) - memory.output - memory.saved);
}

void set_backward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments) {
  int64_t gradients = 0;
  for (int64_t bytes : memory.input_gradients) gradients += bytes;
  memory.backward_workspace = std::max<int64_t>(0, std::max(moments) - gradients);
}

double bytes_of(const std::vector<CallTensor>& tensors) {
  double bytes = 0;
  for (const CallTensor& tensor : tensors) bytes += double(tensor.bytes());
  return bytes;
}

std::vector<OperatorWork> one_pass(const CallShapes& call, double flops, double operators, bool multiplies) {
  const double activations = bytes_of(call.inputs) + double(call.output.bytes());
  return {{.operators = operators,
           .flops = flops,
           .bytes = activations + bytes_of(call.parameters),
           .multiplies = multiplies}};
}

LayerExchanges halo_exchanges(const CallShapes& call, const Window& rows) {
  const Halo halo = halo_of(rows);
  const Shape& images = call.inputs[0].shape;
  const double row = double(images[0] * images[1] * images[3] * call.inputs[0].element);
  const Exchange exchange{RedistributionKind::send_receive, double(halo.above + halo.below) * row};
  return {{exchange}, call.wanted[0] ? std::vector{exchange} : std::vector<Exchange>{}};
}

std::vector<int64_t> onnx_pads(const Window& rows, const Window& columns, const Shape& input, const Shape& output) {
  std::vector<int64_t> pads{rows.padding, columns.padding, rows.padding, columns.padding};
  for (size_t d = 0; d < 2; ++d) {
    const Window& window = d == 0 ? rows : columns;
    const int64_t reach = (output[d + 1] - 1) * window.stride + window.kernel;
    if (window.ceil) pads[d + 2] = std::max<int64_t>(0, reach - input[d + 1] - window.padding);
  }
  return pads;
}

}  // namespace trireme
