// Runs a whole model on one device in a plain way: forward in order, backward in reverse order.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../model/test_call.h"
#include "trireme/model.h"

namespace trireme::test_support {

class PlainRun {
 public:
  PlainRun(const Model& model, std::map<std::string, at::Tensor>& state) : model_(model), state_(state) {}

  /// Returns the losses per sample and adds metrics to `metrics`.
  at::Tensor forward(const at::Tensor& data, const at::Tensor& target, bool training = true) {
    at::AutoDispatchBelowAutograd no_autograd;
    const auto& nodes = model_.nodes();
    calls.clear();
    values.assign(nodes.size(), {});
    values[0] = channels_last(data);
    values[1] = target;
    for (size_t id = 0; id < nodes.size(); ++id) {
      calls.push_back(std::make_unique<TestCall>());
      if (!nodes[id].layer) continue;
      TestCall& call = *calls[id];
      call.training = training;
      call.micro_batch_samples = data.size(0);
      for (const ParameterSpec& spec : nodes[id].layer->parameters()) call.parameters.push_back(state_.at(spec.name));
      for (const BufferSpec& spec : nodes[id].layer->buffers()) call.buffers.push_back(state_.at(spec.name));
      for (const StateSpec& spec : nodes[id].layer->states()) call.states.push_back(first_state(spec, data.size(0)));
      std::vector<at::Tensor> inputs;
      for (NodeId input : nodes[id].inputs) {
        inputs.push_back(values[size_t(input)]);
        call.wanted_inputs.push_back(input >= model_.input_count());
      }
      values[id] = nodes[id].layer->forward(call, inputs);
      for (auto& [metric, value] : call.metrics) metrics[metric] += value;
    }
    return values.back();
  }

  /// Gradients of the mean loss by parameter name.
  std::map<std::string, at::Tensor> backward() {
    at::AutoDispatchBelowAutograd no_autograd;
    const auto& nodes = model_.nodes();
    std::vector<at::Tensor> gradients(nodes.size());
    gradients.back() = at::full_like(values.back(), 1.0 / double(values.back().size(0)));
    std::map<std::string, at::Tensor> result;
    for (size_t id = nodes.size(); id-- > size_t(model_.input_count());) {
      const Node& node = nodes[id];
      if (!gradients[id].defined()) continue;  // token ids and indices need no gradient
      auto input_gradients = node.layer->backward(*calls[id], gradients[id]);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        at::Tensor& sum = gradients[size_t(node.inputs[i])];
        if (input_gradients[i].defined()) sum = sum.defined() ? sum + input_gradients[i] : input_gradients[i];
      }
      auto specs = node.layer->parameters();
      for (size_t i = 0; i < specs.size(); ++i) {
        at::Tensor& sum = result[specs[i].name];
        const at::Tensor& own = calls[id]->gradients.at(int(i));
        sum = sum.defined() ? sum + own : own;
      }
    }
    return result;
  }

  std::vector<std::unique_ptr<TestCall>> calls;
  std::vector<at::Tensor> values;
  std::map<std::string, double> metrics;

 private:
  static at::Tensor first_state(const StateSpec& spec, int64_t samples) {
    Shape sizes = spec.sample_shape;
    sizes.insert(sizes.begin(), samples);
    return at::zeros(sizes);
  }

  const Model& model_;
  std::map<std::string, at::Tensor>& state_;
};

}  // namespace trireme::test_support
