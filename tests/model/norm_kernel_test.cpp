// The fused norm kernels: every instruction set is compared with double arithmetic, bfloat16 with its rounding.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "layer_cases.h"
#include "model/kernels/norm.h"
#include "trireme/layers/batch_norm.h"

namespace trireme::test_support {
namespace {

using namespace kernels;

/// Kernel tables that this machine can run.
template <class Element>
std::vector<std::pair<const char*, const NormKernels<Element>*>> tables() {
  std::vector<std::pair<const char*, const NormKernels<Element>*>> all{{"baseline", &baseline::table<Element>()}};
  if (avx2::supported()) all.emplace_back("avx2", &avx2::table<Element>());
  if (avx512::supported()) all.emplace_back("avx512", &avx512::table<Element>());
  return all;
}

TEST(NormKernel, MomentsSurviveALargeMean) {
  constexpr int64_t kRows = 5000;
  for (int64_t channels : {1, 5, 16, 70, 128}) {
    std::vector<float> x(size_t(kRows * channels));
    Philox random(3);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(1000 + 0.01 * random.normal(i));
    std::vector<double> mean(size_t(channels), 0), m2(size_t(channels), 0);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < channels; ++c) mean[size_t(c)] += double(x[size_t(r * channels + c)]) / kRows;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < channels; ++c)
        m2[size_t(c)] += std::pow(double(x[size_t(r * channels + c)]) - mean[size_t(c)], 2);
    for (auto [isa, table] : tables<float>()) {
      std::vector<double> got_mean(size_t(channels), -1), got_m2(size_t(channels), -1);
      table->moments(x.data(), kRows, channels, got_mean.data(), got_m2.data());
      for (size_t c = 0; c < size_t(channels); ++c) {
        EXPECT_NEAR(got_mean[c], mean[c], 1e-6) << isa << " " << channels;
        EXPECT_NEAR(got_m2[c] / m2[c], 1, 1e-4) << isa << " " << channels;
      }
    }
  }
}

TEST(NormKernel, BFloat16RoundsToNearestEvenAndKeepsNan) {
  // normalize with scale 1 and shift 0 only converts. at::Tensor::to is the oracle for the rounding of the sum.
  constexpr int64_t kRows = 37, kChannels = 83;
  at::Tensor x = random_tensor({kRows, kChannels}, 1).to(at::kBFloat16),
             residual = random_tensor({kRows, kChannels}, 2).to(at::kBFloat16);
  x[0][0] = std::numeric_limits<float>::quiet_NaN();
  x[1][1] = std::numeric_limits<float>::infinity();
  at::Tensor expected = (x.to(at::kFloat) + residual.to(at::kFloat)).to(at::kBFloat16).to(at::kFloat);
  std::vector<float> zero(kChannels, 0), one(kChannels, 1);
  auto bits = [](at::Tensor& t) { return static_cast<BFloat16Bits*>(t.data_ptr()); };
  for (auto [isa, table] : tables<BFloat16Bits>()) {
    at::Tensor y = at::empty_like(x);
    table->normalize({.rows = kRows,
                      .channels = kChannels,
                      .coefficients = {zero.data(), one.data(), zero.data()},
                      .input = bits(x),
                      .residual = bits(residual),
                      .output = bits(y),
                      .relu = false});
    EXPECT_TRUE(at::equal(y.to(at::kFloat).nan_to_num(), expected.nan_to_num())) << isa;
    EXPECT_TRUE(std::isnan(y[0][0].item<float>())) << isa;
  }
}

/// Compares with PyTorch's batch norm, ReLU and addition: forward, backward and running statistics.
class AgainstTorch : public ::testing::TestWithParam<std::tuple<at::ScalarType, bool, bool>> {};

TEST_P(AgainstTorch, AgreesWithinRounding) {
  auto [type, relu, residual] = GetParam();
  constexpr int64_t kChannels = 40;
  const Shape sizes{6, kChannels, 7, 5};
  BatchNorm layer("layer", kChannels, {.relu = relu, .residual = residual});
  auto rounded = [&](uint64_t seed) { return channels_last(random_tensor(sizes, seed).to(type)); };
  std::vector<at::Tensor> inputs{rounded(1)};
  if (residual) inputs.push_back(rounded(2));
  at::Tensor gradient = rounded(3);
  auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  TestCall call;
  call.parameters = {random_tensor({kChannels}, 4).to(wide), random_tensor({kChannels}, 5).to(wide)};
  call.buffers = {at::zeros({kChannels}, wide), at::ones({kChannels}, wide)};
  at::Tensor output = layer.forward(call, inputs);
  auto gradients = layer.backward(call, gradient);

  at::Tensor x = inputs[0].to(at::kDouble), gamma = call.parameters[0].to(at::kDouble),
             beta = call.parameters[1].to(at::kDouble);
  at::Tensor mean = at::zeros({kChannels}, at::kDouble), variance = at::ones({kChannels}, at::kDouble);
  auto [y, saved_mean, saved_inverse] = at::native_batch_norm(x, gamma, beta, mean, variance, true, 0.1, 1e-5);
  if (residual) y = y + inputs[1].to(at::kDouble);
  at::Tensor gy = gradient.to(at::kDouble);
  if (relu) {
    y = at::relu(y);
    gy = at::where(output.to(at::kDouble) > 0, gy, at::zeros_like(gy));
  }
  auto [gx, ggamma, gbeta] = at::native_batch_norm_backward(gy, x, gamma, mean, variance, saved_mean, saved_inverse,
                                                            true, 1e-5, {true, true, true});
  double unit = type == at::kDouble  ? 1e-13
                : type == at::kFloat ? 2e-6
                                     : 1.0 / 256;  // half a unit in the last place of bf16
  auto near = [&](const at::Tensor& got, const at::Tensor& want, double relative, const char* what) {
    at::Tensor excess =
        (got.to(at::kDouble) - want).abs() - relative * (want.abs() + (type == at::kBFloat16 ? 1e-2 : 1.0));
    EXPECT_LE(excess.max().item<double>(), 0) << what;
  };
  double fine = type == at::kDouble ? 1e-12 : 1e-4;
  near(output, y, unit, "output");
  near(gradients[0], gx, type == at::kFloat ? 1e-4 : unit, "input gradient");
  if (residual) near(gradients[1], gy, unit, "residual gradient");
  near(call.gradients.at(0), ggamma, fine, "weight gradient");
  near(call.gradients.at(1), gbeta, fine, "bias gradient");
  near(call.buffers[0], mean, fine, "running mean");
  near(call.buffers[1], variance, fine, "running variance");

  call.training = false;
  at::Tensor evaluated = layer.forward(call, inputs);
  at::Tensor expected = std::get<0>(at::native_batch_norm(x, gamma, beta, mean, variance, false, 0.1, 1e-5));
  if (residual) expected = expected + inputs[1].to(at::kDouble);
  near(evaluated, relu ? at::relu(expected) : expected, unit, "evaluation");
}

INSTANTIATE_TEST_SUITE_P(Types, AgainstTorch,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                            ::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace trireme::test_support
