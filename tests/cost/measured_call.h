// Runs a layer's call outside the runtime and measures the memory that it holds, from storages and from the accounting
// allocator.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <set>

#include "base/memory.h"
#include "base/random.h"
#include "cost/call_shapes.h"
#include "model/test_call.h"

namespace trireme::test_support {

/// Like the runtime's call: the memory of gradients exists before the call.
class PreparedCall : public TestCall {
 public:
  GradientTarget gradient_target(int index) override { return {gradients.at(index), false}; }
};

struct MeasuredCall {
  LayerMemory memory;         ///< without workspaces
  int64_t forward_peak = 0;   ///< bytes added to those before the call
  int64_t backward_peak = 0;  ///< likewise
};

inline at::ScalarType float_type(int64_t element) {
  return element == 2 ? at::kBFloat16 : element == 8 ? at::kDouble : at::kFloat;
}

inline at::Tensor drawn(const CallTensor& tensor, uint64_t seed, double low, double high) {
  at::Tensor values = at::empty(tensor.shape, at::kFloat);
  Philox random(random_key(seed, "measured call"));
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<float>()[i] = float(low + (high - low) * random.uniform(uint64_t(i)));
  return channels_last(values.to(float_type(tensor.element)));
}

/// Runs forward and backward on a device of the memory accounting that no other code may use.
inline MeasuredCall measure_call(const CallShapes& shapes, const CallInputs& inputs, Communicator* group, int device) {
  const c10::InferenceMode mode;
  const Layer& layer = *shapes.layer;
  const DeviceScope scope(device);
  PreparedCall call;
  call.option = shapes.option;
  call.tensor_degree = shapes.tensor;
  call.tensor = group;
  call.tensor_index = group == nullptr ? 0 : group->rank();
  call.micro_batch_samples = call.batch_samples = shapes.samples;
  call.wanted_inputs = shapes.wanted;
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < shapes.inputs.size(); ++i) {
    const CallTensor& input = shapes.inputs[i];
    if (layer.integers_below(inputs.shapes, i)) values.push_back(at::ones(input.shape, at::kLong));
    else if (input.element == 1) values.push_back(channels_last(at::ones(input.shape, at::kByte)));
    else values.push_back(drawn(input, 1 + i, -1, 1));
  }
  for (size_t i = 0; i < shapes.parameters.size(); ++i) {
    call.parameters.push_back(drawn(shapes.parameters[i], 100 + i, -0.1, 0.1));
    call.gradients[int(i)] = at::zeros_like(call.parameters.back());
  }
  const auto buffer_type = shapes.master == 8 ? at::kDouble : at::kFloat;
  const std::vector<BufferSpec> buffers = layer.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    Shape shape = buffers[i].shape;
    if (shapes.option->buffers[i].is_shard()) shape[size_t(shapes.option->buffers[i].dim)] /= shapes.tensor;
    call.buffers.push_back(at::full(shape, buffers[i].initial, buffer_type));
  }
  const std::vector<StateSpec> states = layer.states();
  for (size_t i = 0; i < states.size(); ++i) {
    Shape shape = states[i].sample_shape;
    shape.insert(shape.begin(), shapes.samples);
    if (shapes.option->states[i].is_shard()) shape[size_t(shapes.option->states[i].dim)] /= shapes.tensor;
    call.states.push_back(at::zeros(shape, float_type(shapes.compute)));
  }
  for (size_t d = 0; d < shapes.output.shape.size(); ++d) {
    const int64_t size = shapes.output.shape[d],
                  begin = shapes.option->output == Placement::shard(int(d)) ? size * call.tensor_index : 0;
    call.output_box.push_back({begin, begin + size});
  }

  MeasuredCall result;
  LayerMemory& memory = result.memory;
  const int64_t before = memory_use(device).total();
  reset_memory_peak(device);
  at::Tensor output = layer.forward(call, values);
  result.forward_peak = memory_use(device).peak - before;
  int64_t held = memory_use(device).total() - before;
  std::set<const void*> kept;
  for (const at::Tensor& tensor : call.saved)
    if (tensor.defined() && tensor.numel() > 0) kept.insert(tensor.storage().data());
  for (size_t i = 0; i < values.size(); ++i) {
    memory.keeps_input.push_back(kept.contains(values[i].storage().data()));
    if (output.storage().data() == values[i].storage().data()) memory.output_shares_input = int(i);
  }
  if (memory.output_shares_input < 0) {
    memory.keeps_output = kept.contains(output.storage().data());
    memory.output = int64_t(output.storage().nbytes());
  }
  for (const auto& [index, state] : call.next_states)
    held -= int64_t(state.storage().nbytes());  // belongs to the runtime, not to the call
  memory.saved = held - memory.output;

  const at::Tensor output_gradient = at::ones_like(output);  // with the same memory layout
  output.reset();
  const int64_t base = memory_use(device).total();
  reset_memory_peak(device);
  const std::vector<at::Tensor> gradients = layer.backward(call, output_gradient);
  result.backward_peak = memory_use(device).peak - base;
  std::set<const void*> counted{output_gradient.storage().data()};
  for (const at::Tensor& gradient : gradients) {
    const bool is_new = gradient.defined() && counted.insert(gradient.storage().data()).second;
    memory.input_gradients.push_back(is_new ? int64_t(gradient.storage().nbytes()) : 0);
  }
  return result;
}

}  // namespace trireme::test_support
