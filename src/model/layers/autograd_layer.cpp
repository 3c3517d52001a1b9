#include "trireme/layers/autograd_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "model/layers/common.h"

namespace trireme {
namespace {

/// While alive, this thread creates tensors that autograd accepts, and records operators on them unless told otherwise.
using OrdinaryMode = c10::InferenceMode;
constexpr bool kInference = false;

/// Index of the recording among the saved tensors: a tensor without elements that has the gradient function of the
/// output, so that the output's own memory is not retained. Undefined if nothing was recorded. The inputs follow, then
/// the parameters (if something was recorded).
constexpr size_t kRecording = 0, kInputs = 1;

bool differentiable(LayerCall& call, const at::Tensor& input, size_t index) {
  return input.is_floating_point() && call.wants_input_gradient(int(index));
}

at::Tensor leaf_of(const at::Tensor& tensor, bool wanted) { return ordinary_tensor(tensor).set_requires_grad(wanted); }

/// Returns the gradients of those leaves that require one, in their order; undefined for the others and if the result
/// does not depend on them.
std::vector<at::Tensor> gradients_of(const at::Tensor& recording, const std::vector<at::Tensor>& leaves,
                                     const at::Tensor& output_gradient) {
  std::vector<at::Tensor> wanted, result(leaves.size());
  for (const at::Tensor& leaf : leaves)
    if (leaf.requires_grad()) wanted.push_back(leaf);
  if (!recording.defined() || wanted.empty()) return result;
  const std::vector<at::Tensor> found =
      torch::autograd::grad({recording}, wanted, {ordinary_tensor(output_gradient)},
                            /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  auto next = found.begin();
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].requires_grad()) result[i] = *next++;
  return result;
}

}  // namespace

at::Tensor ordinary_tensor(const at::Tensor& tensor) {
  const OrdinaryMode mode(kInference);
  return at::empty({0}, tensor.options())
      .set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

at::Tensor AutogradLayer::record(LayerCall& call, std::span<const at::Tensor> inputs) const {
  std::vector<at::Tensor> leaves;
  bool any_wanted = false;
  auto add_leaf = [&](const at::Tensor& tensor, bool wanted) {
    leaves.push_back(leaf_of(tensor, wanted));
    any_wanted = any_wanted || wanted;
  };
  for (size_t i = 0; i < inputs.size(); ++i) add_leaf(inputs[i], differentiable(call, inputs[i], i));
  const size_t parameter_count = parameters().size();
  for (size_t i = 0; i < parameter_count; ++i) add_leaf(call.parameter(int(i)), call.wants_gradient(int(i)));

  const at::AutoGradMode recording_mode(any_wanted);
  const std::span<const at::Tensor> all(leaves);
  const at::Tensor output = compute(call, all.first(inputs.size()), all.subspan(inputs.size()));
  at::Tensor recording;
  if (output.requires_grad()) {
    recording = at::empty({0});
    torch::autograd::impl::set_gradient_edge(recording, torch::autograd::impl::gradient_edge(output));
  }
  call.saved.assign(1, recording);
  call.saved.insert(call.saved.end(), leaves.begin(), leaves.end());
  return in_layout(output.detach());
}

at::Tensor AutogradLayer::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const OrdinaryMode mode(kInference);
  if (call.training) return record(call, inputs);
  std::vector<at::Tensor> arguments, held;
  for (const at::Tensor& input : inputs) arguments.push_back(ordinary_tensor(input));
  const size_t parameter_count = parameters().size();
  for (size_t i = 0; i < parameter_count; ++i) held.push_back(ordinary_tensor(call.parameter(int(i))));
  call.saved.assign(1, at::Tensor());
  call.saved.insert(call.saved.end(), arguments.begin(), arguments.end());
  const at::NoGradGuard nothing_recorded;
  return in_layout(compute(call, arguments, held).detach());
}

std::vector<at::Tensor> AutogradLayer::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  std::vector<at::Tensor> gradients = play_back(call, output_gradient);
  const size_t parameter_count = parameters().size(), input_count = gradients.size() - parameter_count;
  // in the caller's mode, in which the memory for gradients was allocated
  for (size_t i = 0; i < parameter_count; ++i) {
    if (!call.wants_gradient(int(i))) continue;
    const at::Tensor& gradient = gradients[input_count + i];
    call.add_gradient(int(i), gradient.defined() ? gradient : at::zeros_like(call.parameter(int(i))));
  }
  gradients.resize(input_count);
  return gradients;
}

std::vector<at::Tensor> AutogradLayer::play_back(LayerCall& call, const at::Tensor& output_gradient) const {
  const OrdinaryMode mode(kInference);
  if (!call.training) {
    const std::vector<at::Tensor> inputs(call.saved.begin() + kInputs, call.saved.end());
    call.recomputing = true;
    record(call, inputs);
  }
  const std::vector<at::Tensor> leaves(call.saved.begin() + kInputs, call.saved.end());
  std::vector<at::Tensor> gradients = gradients_of(call.saved.at(kRecording), leaves, output_gradient);
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = in_layout(gradient);
  return gradients;
}

}  // namespace trireme
