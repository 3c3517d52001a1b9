#include "layer_cases.h"

#include <stdexcept>

#include "base/random.h"
#include "trireme/layers/add.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/drop_samples.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/global_avg_pool.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {

std::vector<LayerCase> layer_cases() {
  const Shape image{8, 5, 4};
  auto conv = [](Conv2dOptions o) { return std::make_shared<const Conv2d>("layer", o); };
  auto norm = [](int64_t c, BatchNormOptions o) { return std::make_shared<const BatchNorm>("layer", c, o); };
  std::vector<LayerCase> cases{
      {"linear", std::make_shared<const Linear>("layer", 8, 12), {{8}}},
      {"linear_no_bias", std::make_shared<const Linear>("layer", 8, 12, LinearOptions{.bias = false}), {{8}}},
      {"linear_sequence", std::make_shared<const Linear>("layer", 8, 4), {{5, 8}}},
      {"conv", conv({.in = 8, .out = 12, .kernel = 3, .padding = 1}), {image}},
      {"conv_stride_no_bias", conv({.in = 8, .out = 4, .kernel = 3, .stride = 2, .bias = false}), {image}},
      {"conv_one_channel", conv({.in = 1, .out = 4, .kernel = 3}), {{1, 5, 4}}},
      {"conv_groups", conv({.in = 8, .out = 16, .kernel = 3, .padding = 1, .groups = 4}), {image}},
      {"norm", norm(8, {}), {image}},
      {"norm_relu", norm(8, {.relu = true}), {image}},
      {"norm_add", norm(8, {.residual = true}), {image, image}},
      {"norm_add_relu", norm(8, {.relu = true, .residual = true}), {image, image}},
      {"norm_features", norm(8, {.relu = true}), {{8}}},
      {"norm_sequence", norm(8, {.relu = true}), {{8, 12}}},
      {"norm_add_sequence", norm(8, {.residual = true}), {{8, 12}, {8, 12}}},
      {"norm_wide", norm(72, {.relu = true, .residual = true}), {{72, 2, 2}, {72, 2, 2}}},
      {"relu", std::make_shared<const Relu>("layer"), {image}},
      {"add", std::make_shared<const Add>("layer"), {image, image}},
      {"concat", std::make_shared<const Concat>("layer"), {{8, 5, 4}, {1, 5, 4}, {3, 5, 4}}},
      {"concat_sequence", std::make_shared<const Concat>("layer"), {{2, 4}, {3, 4}}},
      {"lstm", std::make_shared<const Lstm>("layer", 6, 8), {{5, 6}}},
      {"add_relu", std::make_shared<const Add>("layer", true), {{8}, {8}}},
      {"max_pool", std::make_shared<const MaxPool2d>("layer", MaxPool2dOptions{3, 2, 1}), {image}},
      {"avg_pool", std::make_shared<const AvgPool2d>("layer", AvgPool2dOptions{3, 2, 1}), {image}},
      {"global_avg_pool", std::make_shared<const GlobalAvgPool>("layer"), {image}},
      {"flatten", std::make_shared<const Flatten>("layer"), {image}},
      {"dropout", std::make_shared<const Dropout>("layer", 0.4), {image}},
      {"dropout_features", std::make_shared<const Dropout>("layer", 0.4), {{12}}},
      {"drop_samples", std::make_shared<const DropSamples>("layer", 0.4), {image}},
      {"drop_channels", std::make_shared<const DropSamples>("layer", 0.4, 1), {image}},
      {"cross_entropy", std::make_shared<const SoftmaxCrossEntropy>("layer"), {{8}, {}}, 8},
  };
  for (const auto& more : {transformer_cases(), vision_cases(), sequence_cases(), loss_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

LayerCase case_named(const std::string& name) {
  for (const LayerCase& c : layer_cases())
    if (c.name == name) return c;
  throw std::logic_error("no case " + name);
}

at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed) {
  at::Tensor t = at::empty(sizes, at::kDouble);
  Philox random(random_key(seed, "test"));
  for (int64_t i = 0; i < t.numel(); ++i) t.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return channels_last(t);
}

std::vector<at::Tensor> random_inputs(const LayerCase& c, uint64_t seed, int64_t batch) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Shape sizes = c.inputs[i];
    sizes.insert(sizes.begin(), batch);
    inputs.push_back(random_tensor(sizes, seed + i + 1));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (c.is_integer(i)) inputs[i] = inputs[i].mul(1000).to(at::kLong).abs().remainder(c.integers_below(i));
  return inputs;
}

void fill_call(TestCall& call, const LayerCase& c, uint64_t seed) {
  call.seed = 5;
  call.step = 3;
  call.first_sample = 7;
  call.micro_batch_samples = kBatch;
  for (size_t i = 0; i < c.inputs.size(); ++i) call.wanted_inputs.push_back(!c.is_integer(i));
  for (const ParameterSpec& spec : c.layer->parameters())
    call.parameters.push_back(random_tensor(spec.shape, seed + 100 + call.parameters.size()));
  for (const BufferSpec& spec : c.layer->buffers())
    call.buffers.push_back(at::full(spec.shape, spec.initial, at::kDouble));
}

}  // namespace trireme::test_support
