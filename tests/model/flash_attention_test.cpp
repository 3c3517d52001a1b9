// Flash attention against attention in float64, on a GPU; skipped where there is none.
#include "model/kernels/flash_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace trireme {
namespace {

constexpr int64_t kSamples = 2, kHeads = 3, kFeatures = 64;
constexpr double kTolerance = 2e-2;  // of the largest value: bfloat16 has eight bits

/// Causal or not; positions.
class FlashAttentions : public ::testing::TestWithParam<std::tuple<bool, int64_t>> {};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale) {
  at::Tensor scores = q.matmul(k.transpose(2, 3)).mul(scale);
  if (causal) {
    const at::Tensor later = at::ones({q.size(2), k.size(2)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
  }
  return scores.softmax(-1).matmul(v);
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor host = actual.to(at::kCPU, at::kDouble);
  ASSERT_EQ(host.sizes(), expected.sizes());
  EXPECT_LE((host - expected).abs().max().item<double>(), kTolerance * expected.abs().max().item<double>());
}

TEST_P(FlashAttentions, GiveTheOutputAndTheGradientsOfPlainOnes) {
  if (!at::hasCUDA() || at::getNumGPUs() == 0) GTEST_SKIP() << "no GPU";
  const auto [causal, positions] = GetParam();
  at::manual_seed(7);
  std::vector<at::Tensor> exact, narrow;
  for (int i = 0; i < 3; ++i) {
    // as a fused projection leaves them: [n, positions, heads, features] with the heads exchanged
    const at::Tensor drawn = at::randn({kSamples, positions, kHeads, kFeatures}).to(at::kBFloat16);
    exact.push_back(drawn.transpose(1, 2).to(at::kDouble).contiguous().requires_grad_());
    narrow.push_back(drawn.to(at::kCUDA).transpose(1, 2));
  }
  ASSERT_TRUE(can_use_flash_attention(narrow[0], narrow[1]));
  const double scale = 1 / std::sqrt(double(kFeatures));
  const at::Tensor output = plain_attention(exact[0], exact[1], exact[2], causal, scale);
  const at::Tensor gradient = at::randn(output.sizes()).to(at::kBFloat16);
  output.backward(gradient.to(at::kDouble));

  const FlashAttention flash = flash_attention(narrow[0], narrow[1], narrow[2], causal, scale);
  expect_close(flash.output, output.detach());
  const auto gradients =
      flash_attention_backward(gradient.to(at::kCUDA), narrow[0], narrow[1], narrow[2], flash, causal, scale);
  for (size_t i = 0; i < gradients.size(); ++i) expect_close(gradients[i], exact[i].grad());
}

TEST(FlashAttention, IsForGpus) {
  const at::Tensor heads = at::zeros({kSamples, kHeads, 8, kFeatures}, at::kBFloat16);
  EXPECT_FALSE(can_use_flash_attention(heads, heads));
}

INSTANTIATE_TEST_SUITE_P(Masks, FlashAttentions, ::testing::Combine(::testing::Bool(), ::testing::Values(64, 197)));

}  // namespace
}  // namespace trireme
