#include "model/import/check.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/text.h"
#include "comm/single.h"
#include "model/import/script_layer.h"
#include "model/layers/common.h"
#include "trireme/error.h"

namespace trireme::torchscript {
namespace {

// Relative. A wrong layer exceeds it by far; another order of summation never reaches it.
constexpr double kTolerance = 1e-3;

/// The call of one layer on one device, outside of any run.
class PlainCall final : public LayerCall {
 public:
  PlainCall(const Layer& layer, const TensorMap& state) : group_(single_communicator()) {
    for (const ParameterSpec& spec : layer.parameters()) parameters_.push_back(in_layout(state.at(spec.name)));
    for (const BufferSpec& spec : layer.buffers()) buffers_.push_back(state.at(spec.name).clone());
    training = false;
  }

  const at::Tensor& parameter(int index) override { return parameters_.at(size_t(index)); }
  at::Tensor& buffer(int index) override { return buffers_.at(size_t(index)); }
  bool wants_gradient(int) override { return true; }
  void add_gradient(int, const at::Tensor&) override {}
  GradientTarget gradient_target(int index) override { return {at::empty_like(parameter(index)), false}; }
  bool wants_input_gradient(int) override { return true; }
  const at::Tensor& state(int index) override { return states.at(size_t(index)); }
  void set_state(int, const at::Tensor&) override {}
  Communicator& data_group() override { return *group_; }
  Communicator& tensor_group() override { return *group_; }
  void report(std::string_view, double) override {}

  std::vector<at::Tensor> states;

 private:
  std::vector<at::Tensor> parameters_, buffers_;
  std::unique_ptr<Communicator> group_;
};

void check_backward(const ScriptLayer& layer, const TensorMap& state, std::span<const at::Tensor> inputs,
                    const std::string& file) {
  PlainCall call(layer, state);
  call.training = true;
  try {
    const at::Tensor output = layer.forward(call, inputs);
    layer.backward(call, at::ones_like(output));
  } catch (const std::exception& error) {
    fail_user({.where = file,
               .what = fmt::format("layer \"{}\" ({})", layer.name(), layer.opaque_because()),
               .why = first_line(error),
               .next = "every operator needs a gradient: a module traced under torch.no_grad() may contain operators "
                       "for inference only"});
  }
}

}  // namespace

void check_model(const Model& model, const TensorMap& state, const at::Tensor& data, const at::Tensor& expected,
                 const std::string& file) {
  const at::AutoDispatchBelowAutograd no_autograd;
  std::vector<at::Tensor> values(model.nodes().size());
  values[0] = in_layout(data);
  for (NodeId id = model.input_count(); id <= model.output(); ++id) {
    const Node& node = model.node(id);
    PlainCall call(*node.layer, state);
    call.micro_batch_samples = call.batch_samples = data.size(0);
    std::vector<at::Tensor> inputs;
    for (NodeId input : node.inputs) inputs.push_back(values[size_t(input)]);
    for (const StateSpec& spec : node.layer->states()) {
      Shape sizes = spec.sample_shape;
      sizes.insert(sizes.begin(), data.size(0));
      call.states.push_back(at::zeros(sizes, expected.options()));
    }
    values[size_t(id)] = node.layer->forward(call, inputs);
    const auto* script = dynamic_cast<const ScriptLayer*>(node.layer.get());
    if (script != nullptr && script->is_opaque()) check_backward(*script, state, inputs, file);
  }
  const at::Tensor& actual = values[size_t(model.output())];
  check_internal(actual.sizes() == expected.sizes(),
                 fmt::format("{}: the imported model's output has the file's shape", file));
  if (actual.numel() == 0) return;
  const double scale = std::max(expected.abs().max().item<double>(), 1e-30),
               difference = (actual - expected).abs().max().item<double>();
  check_internal(difference <= kTolerance * scale,
                 fmt::format("{}: the imported model computes what the file does (they differ by {:.1e} of {:.1e})",
                             file, difference, scale));
}

}  // namespace trireme::torchscript
