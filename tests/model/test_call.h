// Runs one layer outside the runtime: parameters, buffers and gradients are plain tensors.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/single.h"
#include "trireme/layer.h"

namespace trireme::test_support {

/// A LayerCall with shards that the test makes. Groups are groups of one rank unless set.
class TestCall : public LayerCall {
 public:
  const at::Tensor& parameter(int index) override { return parameters.at(size_t(index)); }
  at::Tensor& buffer(int index) override { return buffers.at(size_t(index)); }
  bool wants_gradient(int) override { return true; }
  void add_gradient(int index, const at::Tensor& gradient) override {
    GradientTarget target = gradient_target(index);
    if (target.accumulate) target.tensor.add_(gradient);
    else target.tensor.copy_(gradient);
  }
  GradientTarget gradient_target(int index) override {
    at::Tensor& gradient = gradients[index];
    bool accumulate = gradient.defined();
    if (!accumulate) gradient = at::full_like(parameter(index), std::numeric_limits<double>::quiet_NaN());
    return {gradient, accumulate};
  }
  bool wants_input_gradient(int index) override { return wanted_inputs.empty() || wanted_inputs.at(size_t(index)); }
  Communicator& data_group() override { return data ? *data : *single; }
  Communicator& tensor_group() override { return tensor ? *tensor : *single; }
  const at::Tensor& state(int index) override { return states.at(size_t(index)); }
  void set_state(int index, const at::Tensor& next) override { next_states[index] = next; }
  at::Tensor& scratch() override { return kept; }
  void report(std::string_view metric, double value) override { metrics[std::string(metric)] += value; }

  std::vector<at::Tensor> parameters, buffers, states;
  std::map<int, at::Tensor> next_states;
  at::Tensor kept;
  std::map<int, at::Tensor> gradients;
  std::vector<bool> wanted_inputs;
  std::map<std::string, double> metrics;
  Communicator* data = nullptr;
  Communicator* tensor = nullptr;
  std::unique_ptr<Communicator> single = single_communicator();
};

inline at::Tensor channels_last(const at::Tensor& t) {
  return t.dim() == 4 ? t.contiguous(at::MemoryFormat::ChannelsLast) : t.contiguous();
}

/// For a sharded placement part `index` of `degree` equal parts, otherwise the whole tensor.
inline at::Tensor shard_of(const at::Tensor& t, const Placement& placement, int degree, int index) {
  if (!placement.is_shard()) return t.clone();
  int64_t size = t.size(placement.dim) / degree;
  return channels_last(t.narrow(placement.dim, index * size, size)).clone();
}

/// Makes the whole tensor from the parts of all workers.
inline at::Tensor assemble(const std::vector<at::Tensor>& parts, const Placement& placement) {
  if (placement.is_shard()) return at::cat(parts, placement.dim);
  if (placement.is_partial()) {
    at::Tensor sum = parts[0].clone();
    for (size_t i = 1; i < parts.size(); ++i) sum.add_(parts[i]);
    return sum;
  }
  return parts[0];
}

inline Box box_of(const at::Tensor& t, const Placement& placement, int degree, int index) {
  Box box;
  for (int64_t d = 0; d < t.dim(); ++d) {
    int64_t size = t.size(d), begin = placement.is_shard() && placement.dim == d ? size / degree * index : 0;
    box.push_back({begin, begin + (placement.is_shard() && placement.dim == d ? size / degree : size)});
  }
  return box;
}

}  // namespace trireme::test_support
