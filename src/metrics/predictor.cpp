#include "metrics/predictor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "comm/single.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;

const at::Tensor& weight_of(const TensorMap& weights, const std::string& name) {
  const auto it = weights.find(name);
  check_internal(it != weights.end(), fmt::format("a predictor is given every weight, \"{}\" too", name));
  return it->second;
}

/// Converts to the runtime's memory order: parameters of four dims are channels_last.
at::Tensor in_order(const at::Tensor& weight) {
  return weight.dim() == 4 ? weight.contiguous(at::MemoryFormat::ChannelsLast) : weight.contiguous();
}

/// Returns the nodes that the output depends on, including the output.
std::vector<bool> before_output(const Model& model) {
  std::vector<bool> needed(model.nodes().size());
  needed[size_t(model.output())] = true;
  for (NodeId id = model.output(); id >= 0; --id)
    if (needed[size_t(id)])
      for (NodeId input : model.node(id).inputs) needed[size_t(input)] = true;
  return needed;
}

bool is_token_ids(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong; }

}  // namespace

/// The call of a layer outside of any program.
struct Predictor::Call final : LayerCall {
  std::vector<at::Tensor> parameters, buffers, states;
  Communicator* alone = nullptr;

  const at::Tensor& parameter(int index) override { return parameters.at(size_t(index)); }
  at::Tensor& buffer(int index) override { return buffers.at(size_t(index)); }
  const at::Tensor& state(int index) override { return states.at(size_t(index)); }
  void set_state(int, const at::Tensor&) override {}  // every call starts from zeros
  bool wants_gradient(int) override { return false; }
  bool wants_input_gradient(int) override { return false; }
  void add_gradient(int, const at::Tensor&) override { check_internal(false, "a predictor runs no backward"); }
  GradientTarget gradient_target(int) override {
    check_internal(false, "a predictor runs no backward");
    return {};
  }
  Communicator& data_group() override { return *alone; }
  Communicator& tensor_group() override { return *alone; }
  void report(std::string_view, double) override {}
};

struct Predictor::Step {
  NodeId node = -1;
  const Layer* layer = nullptr;
  ShardingOption option;
  std::vector<at::Tensor> parameters, buffers;
  int readers = 0;  ///< number of readers among the steps
};

Predictor::Predictor(const Model& model, const TensorMap& weights, Precision precision)
    : model_(model),
      precision_(precision),
      alone_(single_communicator()),
      values_(model.nodes().size()),
      changed_(model.nodes().size()) {
  const std::vector<bool> needed = before_output(model);
  for (NodeId input = kData + 1; input < model.input_count(); ++input)
    check_internal(!needed[size_t(input)], "a model's output depends on the data alone");
  for (NodeId id = model.input_count(); id <= model.output(); ++id) {
    if (!needed[size_t(id)]) continue;
    const Layer& layer = *model.node(id).layer;
    Step step{id, &layer, layer.sharding_options(model.input_shapes(id), 1).front(), {}, {}, 0};
    for (const ParameterSpec& spec : layer.parameters())
      step.parameters.push_back(in_order(
          weight_of(weights, spec.name).to(spec.full_precision ? master_type(precision) : compute_type(precision))));
    for (const BufferSpec& spec : layer.buffers())
      step.buffers.push_back(weight_of(weights, spec.name).to(master_type(precision)));
    steps_.push_back(std::move(step));
  }
  for (Step& step : steps_)
    for (NodeId consumer : model.consumers(step.node)) step.readers += needed[size_t(consumer)];
}

Predictor::Predictor(const Model& model, const Predictor& other)
    : model_(model),
      precision_(other.precision_),
      alone_(single_communicator()),
      steps_(other.steps_),
      values_(model.nodes().size()),
      changed_(model.nodes().size()) {
  check_internal(model.nodes().size() == other.model_.nodes().size(), "models for other lengths have the same graph");
  for (Step& step : steps_) {
    const Node& node = model.node(step.node);
    check_internal(node.name == other.model_.node(step.node).name, "models for other lengths have the same graph");
    step.layer = node.layer.get();
    step.option = node.layer->sharding_options(model.input_shapes(step.node), 1).front();
  }
}

Predictor::~Predictor() = default;

at::Tensor Predictor::forward(Step& step, int64_t samples) {
  const Node& node = model_.node(step.node);
  Call call;
  call.training = false;
  call.batch_samples = call.micro_batch_samples = samples;
  call.option = &step.option;
  Shape shape = node.sample_shape;
  shape.insert(shape.begin(), samples);
  call.output_box = whole(shape);
  call.parameters = step.parameters;
  call.buffers = step.buffers;
  call.alone = alone_.get();
  for (const StateSpec& spec : step.layer->states()) {
    Shape state = spec.sample_shape;
    state.insert(state.begin(), samples);
    call.states.push_back(at::zeros(state, at::TensorOptions().dtype(compute_type(precision_))));
  }
  std::vector<at::Tensor> inputs;
  for (NodeId input : node.inputs) inputs.push_back(values_[size_t(input)]);
  return step.layer->forward(call, inputs);
}

at::Tensor Predictor::run(const at::Tensor& data, bool keeps) {
  c10::InferenceMode inference;
  const int64_t samples = data.size(0);
  values_[kData] = data.is_floating_point() ? data.to(compute_type(precision_)) : data;
  changed_[kData] = true;
  std::vector<int> readers(values_.size());
  for (Step& step : steps_) {
    const auto& inputs = model_.node(step.node).inputs;
    const auto id = size_t(step.node);
    changed_[id] = !values_[id].defined() ||
                   std::any_of(inputs.begin(), inputs.end(), [&](NodeId i) { return changed_[size_t(i)]; });
    if (!changed_[id]) continue;
    at::Tensor value = forward(step, samples);
    if (keeps && is_token_ids(value) && values_[id].defined() && at::equal(value, values_[id])) {
      changed_[id] = false;
      continue;
    }
    values_[id] = std::move(value);
    readers[id] = step.readers;
    for (NodeId input : inputs)
      if (!keeps && input >= model_.input_count() && --readers[size_t(input)] == 0) values_[size_t(input)].reset();
  }
  at::Tensor output = values_[size_t(model_.output())];
  if (!keeps) std::fill(values_.begin(), values_.end(), at::Tensor());
  return output;
}

at::Tensor Predictor::predict(const at::Tensor& data) {
  std::fill(values_.begin(), values_.end(), at::Tensor());
  return run(data, /*keeps=*/false);
}

at::Tensor Predictor::predict_again(const at::Tensor& data) { return run(data, /*keeps=*/true); }

}  // namespace trireme
