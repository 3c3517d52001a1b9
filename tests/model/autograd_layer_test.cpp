// AutogradLayer: gradients of a subclass's `compute`, inside and outside inference mode, on several threads; what it
// keeps and how long.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/memory.h"
#include "layer_cases.h"
#include "model/layers/common.h"
#include "trireme/layers/autograd_layer.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kSamples = 4, kIn = 3, kOut = 5;
constexpr double kTolerance = 1e-13;

/// y = sin(a w^T) * b + c, where input c holds integers. Parameter "unused" is not used.
class Gated final : public AutogradLayer {
 public:
  using AutogradLayer::AutogradLayer;

  std::string_view kind() const override { return "gated"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{name() + ".weight", {kOut, kIn}, Init::normal(0, 1)}, {name() + ".unused", {2}, Init::constant(0)}};
  }
  Shape output_shape(std::span<const Shape>) const override { return {kOut}; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int) const override {
    return {replicate_option(3, 2)};
  }
  double forward_flops(std::span<const Shape>) const override { return 2.0 * kIn * kOut; }

 protected:
  at::Tensor compute(LayerCall&, std::span<const at::Tensor> x, std::span<const at::Tensor> p) const override {
    return at::matmul(x[0], p[0].t()).sin().mul(x[1]).add(x[2].to(x[0].scalar_type()).unsqueeze(1));
  }
};

struct Problem {
  explicit Problem(at::ScalarType type = at::kDouble) {
    auto draw = [&](Shape sizes, uint64_t seed) { return random_tensor(sizes, seed).to(type); };
    inputs = {draw({kSamples, kIn}, 1), draw({kSamples, kOut}, 2), at::arange(kSamples, at::kLong)};
    parameters = {draw({kOut, kIn}, 3), draw({2}, 4)};
    output_gradient = draw({kSamples, kOut}, 5);
  }
  void fill(TestCall& call) const {
    call.parameters = parameters;
    call.wanted_inputs = {true, true, false};
  }

  std::vector<at::Tensor> inputs, parameters;
  at::Tensor output_gradient;
};

struct Expected {
  at::Tensor output, a, b, weight;
};

/// Computed by hand.
Expected by_hand(const Problem& p) {
  const at::Tensor product = at::matmul(p.inputs[0], p.parameters[0].t()),
                   inner = p.output_gradient * p.inputs[1] * product.cos();
  return {product.sin() * p.inputs[1] + p.inputs[2].unsqueeze(1), at::matmul(inner, p.parameters[0]),
          p.output_gradient * product.sin(), at::matmul(inner.t(), p.inputs[0])};
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

void expect_equal(const Problem& p, TestCall& call, const at::Tensor& output, const std::vector<at::Tensor>& gradients,
                  double tolerance = kTolerance) {
  const Expected expected = by_hand(p);
  EXPECT_FALSE(output.requires_grad());
  EXPECT_LT(distance(output, expected.output), tolerance);
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_LT(distance(gradients[0], expected.a), tolerance);
  EXPECT_LT(distance(gradients[1], expected.b), tolerance);
  EXPECT_FALSE(gradients[2].defined());
  EXPECT_LT(distance(call.gradients.at(0), expected.weight), tolerance);
  EXPECT_EQ(call.gradients.at(1).abs().max().item<double>(), 0) << "the unused parameter";
}

/// Runs in inference mode, and with autograd on and off.
TEST(AutogradLayer, GradientsInEveryMode) {
  const Gated layer("layer");
  auto run = [&](bool training) {
    const Problem p;  // made in the current mode: in inference mode these are inference tensors
    TestCall call;
    p.fill(call);
    call.training = training;
    const at::Tensor output = layer.forward(call, p.inputs);
    expect_equal(p, call, output, layer.backward(call, p.output_gradient));
  };
  for (bool training : {true, false}) {
    SCOPED_TRACE(training ? "training" : "evaluation");
    run(training);
    {
      const c10::InferenceMode inference;
      run(training);
    }
    {
      const at::AutoDispatchBelowAutograd no_autograd;
      run(training);
    }
    {
      const at::NoGradGuard no_grad;
      run(training);
    }
    EXPECT_TRUE(at::GradMode::is_enabled());
    EXPECT_FALSE(c10::InferenceMode::is_enabled());
  }
}

TEST(AutogradLayer, LowPrecision) {
  const Gated layer("layer");
  for (auto [type, tolerance] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 0.1}}) {
    const Problem p(type);
    TestCall call;
    p.fill(call);
    const at::Tensor output = layer.forward(call, p.inputs);
    EXPECT_EQ(output.scalar_type(), type);
    const std::vector<at::Tensor> gradients = layer.backward(call, p.output_gradient);
    EXPECT_EQ(gradients[0].scalar_type(), type);
    expect_equal(p, call, output, gradients, tolerance);
  }
}

TEST(AutogradLayer, ReturnsOnlyWantedGradients) {
  struct Call : TestCall {
    bool wants_gradient(int) override { return false; }
  } call;
  const Gated layer("layer");
  const Problem p;
  p.fill(call);
  call.wanted_inputs = {false, true, false};
  layer.forward(call, p.inputs);
  const std::vector<at::Tensor> gradients = layer.backward(call, p.output_gradient);
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_LT(distance(gradients[1], by_hand(p).b), kTolerance);
  EXPECT_TRUE(call.gradients.empty());
}

TEST(AutogradLayer, RecomputedForwardsAndSeveralMicroBatches) {
  const Gated layer("layer");
  const Problem p;
  TestCall first, second;
  p.fill(first);
  p.fill(second);
  layer.forward(first, p.inputs);
  layer.forward(second, p.inputs);
  layer.forward(first, p.inputs);  // a second forward replaces the first recording
  layer.backward(second, p.output_gradient);
  const at::Tensor once = second.gradients.at(0).clone();
  layer.backward(first, p.output_gradient);
  EXPECT_EQ(distance(first.gradients.at(0), once), 0);
  layer.forward(first, p.inputs);
  layer.backward(first, p.output_gradient);
  EXPECT_LT(distance(first.gradients.at(0), 2 * once), kTolerance);
}

TEST(AutogradLayer, ThreadsShareALayerAndItsWeights) {
  constexpr int kThreads = 8, kRounds = 20;
  const Gated layer("layer");
  const Problem p;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      const c10::InferenceMode inference;
      for (int round = 0; round < kRounds; ++round) {
        TestCall call;
        p.fill(call);
        const at::Tensor output = layer.forward(call, p.inputs);
        expect_equal(p, call, output, layer.backward(call, p.output_gradient));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

/// x * sigmoid(x). Its recording holds x and sigmoid(x), not the output.
class Swish final : public AutogradLayer {
 public:
  using AutogradLayer::AutogradLayer;

  std::string_view kind() const override { return "swish"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int) const override {
    return {replicate_option(1)};
  }
  double forward_flops(std::span<const Shape>) const override { return 1; }

 protected:
  at::Tensor compute(LayerCall&, std::span<const at::Tensor> x, std::span<const at::Tensor>) const override {
    return x[0] * x[0].sigmoid();
  }
};

TEST(AutogradLayer, ItsRecordingBelongsToTheCallAndTheWorker) {
  constexpr int kDevice = 77;
  constexpr int64_t kElements = 1 << 18, kBytes = kElements * 4;
  install_memory_accounting();
  const c10::InferenceMode inference;
  const DeviceScope device(kDevice);
  auto held = [] { return double(memory_use(kDevice).total()) / double(kBytes); };
  const Swish layer("layer");
  const at::Tensor x = at::ones({kElements}, at::kFloat);
  ASSERT_DOUBLE_EQ(held(), 1);
  for (bool training : {true, false}) {
    SCOPED_TRACE(training ? "training" : "evaluation");
    auto call = std::make_unique<TestCall>();
    call->training = training;
    at::Tensor output = layer.forward(*call, {&x, 1});
    EXPECT_NEAR(held(), training ? 3 : 2, 0.01);
    output.reset();
    EXPECT_NEAR(held(), training ? 2 : 1, 0.01);
    if (training) {
      const at::Tensor gradient = layer.backward(*call, at::ones_like(x)).at(0);
      EXPECT_NEAR(held(), 2, 0.01) << "what was recorded goes as it is played back";
      EXPECT_NEAR(gradient[0].item<float>(), 0.9276705, 1e-6);
    } else {
      layer.forward(*call, {&x, 1});
    }
    call.reset();
    EXPECT_NEAR(held(), 1, 0.01);
  }
}

TEST(AutogradLayer, ImagesComeInChannelsLastOrder) {
  const Swish layer("layer");
  const at::Tensor x = random_tensor({2, 3, 4, 5}, 1).contiguous();
  TestCall call;
  const at::Tensor output = layer.forward(call, {&x, 1});
  EXPECT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(layer.backward(call, random_tensor({2, 3, 4, 5}, 2).contiguous())
                  .at(0)
                  .is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace trireme::test_support
