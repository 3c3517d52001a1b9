// The named models: sizes, messages, and that each of them learns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "run_model.h"
#include "zoo/zoo.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

at::Tensor draw(const ParameterSpec& spec, uint64_t seed, at::ScalarType type) {
  at::Tensor t = at::empty(spec.shape, at::kDouble);
  Philox random(random_key(seed, spec.name));
  for (int64_t i = 0; i < t.numel(); ++i) {
    double& x = t.data_ptr<double>()[i];
    switch (spec.init.kind) {
      case Init::Kind::constant: x = spec.init.a; break;
      case Init::Kind::uniform: x = spec.init.a + (spec.init.b - spec.init.a) * random.uniform(uint64_t(i)); break;
      case Init::Kind::normal: x = spec.init.a + spec.init.b * random.normal(uint64_t(i)); break;
    }
  }
  return channels_last(t.to(type));
}

std::map<std::string, at::Tensor> initial_state(const Model& model, uint64_t seed, at::ScalarType type) {
  std::map<std::string, at::Tensor> state;
  for (const ParameterSpec& spec : model.parameters()) state[spec.name] = draw(spec, seed, type);
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const BufferSpec& spec : node.layer->buffers()) state[spec.name] = at::full(spec.shape, spec.initial, type);
  return state;
}

TEST(Zoo, ResNet18HasTorchvisionsParameters) {
  Model m = make_model({.name = "resnet18", .sample_shape = {3, 32, 32}, .classes = 1000, .options = {}});
  EXPECT_EQ(m.parameter_count(), 11689512);
  EXPECT_EQ(m.parameters().front().name, "conv1.weight");
  EXPECT_EQ(m.parameters().back().name, "fc.bias");
  EXPECT_EQ(m.node(m.output()).sample_shape, Shape{1000});
}

TEST(Zoo, CifarResNet18HasTheKnownSize) {
  Model m = make_model({.name = "cifar-resnet18", .sample_shape = {3, 32, 32}, .classes = 10, .options = {}});
  EXPECT_EQ(m.parameter_count(), 11173962);
  double flops = 0;
  for (NodeId id = 0; id < NodeId(m.nodes().size()); ++id)
    if (m.node(id).layer && m.node(id).layer->kind() == "conv2d") flops += m.node(id).layer->forward_flops(m.input_shapes(id));
  EXPECT_NEAR(flops, 1.11e9, 0.02e9);  // 0.56 G multiply-adds
}

TEST(Zoo, ResNetsWithoutBatchNormKeepTheirConvolutions) {
  for (const char* name : {"cifar-resnet18", "resnet18"}) {
    Model with = make_model({.name = name, .sample_shape = {3, 32, 32}, .classes = 10, .options = {}});
    Model without = make_model({.name = name, .sample_shape = {3, 32, 32}, .classes = 10, .options = {{"batch_norm", 0}}});
    auto count = [](const Model& model, std::string_view kind) {
      return std::count_if(model.nodes().begin(), model.nodes().end(), [&](const Node& n) { return n.layer && n.layer->kind() == kind; });
    };
    EXPECT_EQ(count(with, "batch_norm"), 20);
    EXPECT_EQ(count(without, "batch_norm"), 0);
    EXPECT_EQ(count(without, "conv2d"), count(with, "conv2d"));
    EXPECT_EQ(count(without, "add_relu"), 8);
    EXPECT_EQ(count(without, "relu"), 9);
    for (const ParameterSpec& spec : without.parameters())
      EXPECT_TRUE(spec.name == "fc.bias" || spec.name.ends_with(".weight")) << spec.name;
    EXPECT_NE(with.fingerprint(), without.fingerprint());
  }
}

TEST(Zoo, MnistConvnetNamesItsLayers) {
  Model m = make_model({.name = "mnist-convnet", .sample_shape = {1, 28, 28}, .classes = 10, .options = {}});
  for (const char* name : {"conv1", "conv2", "fc1", "fc2"}) EXPECT_GE(m.find(name), 0) << name;
  EXPECT_EQ(m.node(m.find("flatten")).sample_shape, Shape{512});
}

TEST(Zoo, NamesWhatItDoesNotKnow) {
  auto message = [](ModelSpec spec) {
    try {
      make_model(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::user);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message({"lenet", {1, 28, 28}, 10, {}}), ::testing::AllOf(HasSubstr("\"lenet\""), HasSubstr("mnist-convnet")));
  EXPECT_THAT(message({"mlp", {4}, 3, {{"heigth", 2}}}), ::testing::AllOf(HasSubstr("\"heigth\""), HasSubstr("hidden")));
  EXPECT_THAT(message({"mlp", {4}, 3, {{"depth", 1.5}}}), HasSubstr("1.5"));
  EXPECT_THAT(message({"mlp", {4}, 0, {}}), HasSubstr("0 classes"));
  EXPECT_THAT(message({"mnist-convnet", {1, 6, 6}, 10, {}}), HasSubstr("conv2"));
  EXPECT_THAT(message({"resnet18", {10}, 10, {}}), HasSubstr("conv1"));
}

class Learns : public ::testing::TestWithParam<std::string> {};

/// Plain gradient descent on one fixed batch of random images with random labels must fit it.
TEST_P(Learns, OneBatch) {
  ModelSpec spec{.name = GetParam(), .sample_shape = {1, 16, 16}, .classes = 4, .options = {}};
  if (model_options(spec.name).count("width")) spec.options["width"] = 8;
  Model model = make_model(spec);
  auto state = initial_state(model, 1, at::kFloat);
  constexpr int64_t kBatch = 12;
  at::Tensor data = at::empty({kBatch, 1, 16, 16}), target = at::empty({kBatch}, at::kLong);
  Philox random(9);
  for (int64_t i = 0; i < data.numel(); ++i) data.data_ptr<float>()[i] = float(random.normal(uint64_t(i)));
  for (int64_t i = 0; i < kBatch; ++i) target.data_ptr<int64_t>()[i] = i % spec.classes;
  PlainRun run(model, state);
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    last = run.forward(data, target).mean().item<double>();
    if (step == 0) first = last;
    for (auto& [name, gradient] : run.backward()) state[name].sub_(gradient, 0.1);
  }
  EXPECT_NEAR(first, std::log(4.0), 1.0);
  EXPECT_LT(last, first * 0.5);
}

INSTANTIATE_TEST_SUITE_P(Models, Learns, ::testing::ValuesIn(model_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace trireme::testing
