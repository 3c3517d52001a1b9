// Compares the layers of transformers with libtorch's operators and autograd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../base/expect_error.h"
#include "layer_cases.h"
#include "model/layers/common.h"
#include "oracle.h"
#include "support/ranks.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/group_norm.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 31;
constexpr double kTolerance = 1e-12;

/// Softmax attention, one head at a time, with an explicit sum of exponentials.
at::Tensor attention_by_hand(const std::vector<at::Tensor>& in, int64_t heads, bool causal) {
  const int64_t size = in[0].size(2) / heads;
  std::vector<at::Tensor> outputs;
  for (int64_t h = 0; h < heads; ++h) {
    auto of_head = [&](const at::Tensor& t) { return t.narrow(2, h * size, size); };
    at::Tensor e = (at::einsum("nte,nse->nts", {of_head(in[0]), of_head(in[1])}) / std::sqrt(double(size))).exp();
    if (causal) e = e.tril();
    outputs.push_back(at::einsum("nts,nse->nte", {e / e.sum(2, true), of_head(in[2])}));
  }
  return at::cat(outputs, 2);
}

const Oracles& oracles() {
  static const Oracles all{
      {"linear_long_sequence", [](Tensors x, Tensors p) { return at::linear(x[0], p[0], p[1]); }},
      {"embedding_sequence", [](Tensors x, Tensors p) { return at::embedding(p[0], x[0]); }},
      {"embedding_padding", [](Tensors x, Tensors p) { return at::embedding(p[0], x[0], 5); }},
      {"position_embedding", [](Tensors x, Tensors p) { return x[0] + p[0].unsqueeze(0); }},
      {"layer_norm", [](Tensors x, Tensors p) { return at::layer_norm(x[0], {12}, p[0], p[1]); }},
      {"group_norm", [](Tensors x, Tensors p) { return at::group_norm(x[0], 8, p[0], p[1]); }},
      {"attention", [](Tensors x, Tensors) { return attention_by_hand(x, 12, false); }},
      {"attention_cross", [](Tensors x, Tensors) { return attention_by_hand(x, 8, false); }},
      {"attention_causal", [](Tensors x, Tensors) { return attention_by_hand(x, 4, true); }},
      {"gelu", [](Tensors x, Tensors) { return at::gelu(x[0]); }},
      {"gelu_tanh", [](Tensors x, Tensors) { return at::gelu(x[0], "tanh"); }},
      {"tanh", [](Tensors x, Tensors) { return at::tanh(x[0]); }},
      {"sigmoid", [](Tensors x, Tensors) { return at::sigmoid(x[0]); }},
      {"mean_sequence", [](Tensors x, Tensors) { return x[0].mean(1); }},
      {"image_tokens", [](Tensors x, Tensors) { return x[0].flatten(2).transpose(1, 2); }},
      {"cross_entropy_sequence",
       [](Tensors x, Tensors) {
         return at::cross_entropy_loss(x[0].transpose(1, 2), x[1], {}, at::Reduction::None).mean(1);
       }},
      {"cross_entropy_ignore",
       [](Tensors x, Tensors) {
         std::vector<at::Tensor> losses;
         for (int64_t i = 0; i < x[0].size(0); ++i)
           losses.push_back(at::cross_entropy_loss(x[0][i], x[1][i], {}, at::Reduction::Mean, 2));
         return at::stack(losses);
       }},
  };
  return all;
}

class AgainstAutograd : public ::testing::TestWithParam<Oracles::value_type> {};

TEST_P(AgainstAutograd, OutputAndGradientsAgree) {
  expect_equals_autograd(case_named(GetParam().first), GetParam().second, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Layers, AgainstAutograd, ::testing::ValuesIn(oracles()),
                         [](const auto& info) { return info.param.first; });

std::vector<std::string> option_names(const std::string& name, int degree) {
  const LayerCase c = case_named(name);
  std::vector<std::string> names;
  for (const ShardingOption& option : c.layer->sharding_options(c.inputs, degree)) names.push_back(option.name);
  return names;
}

TEST(Transformer, OptionsCarryTheFieldsNames) {
  EXPECT_THAT(option_names("linear_long_sequence", 4), ElementsAre("replicate", "columns", "rows", "sequence"));
  EXPECT_THAT(option_names("embedding_sequence", 4), ElementsAre("replicate", "vocabulary", "hidden", "sequence"));
  EXPECT_THAT(option_names("embedding", 8), ElementsAre("replicate", "vocabulary", "hidden"));
  EXPECT_THAT(option_names("position_embedding", 4), ElementsAre("replicate", "sequence", "hidden"));
  EXPECT_THAT(option_names("position_embedding_table", 4), ElementsAre("replicate", "sequence", "hidden"));
  EXPECT_THAT(option_names("layer_norm", 4), ElementsAre("replicate", "sequence"));
  EXPECT_THAT(option_names("group_norm", 8), ElementsAre("replicate", "channels"));
  EXPECT_THAT(option_names("attention", 4), ElementsAre("replicate", "heads", "sequence"));
  EXPECT_THAT(option_names("attention_cross", 3), ElementsAre("replicate", "sequence"));
  EXPECT_THAT(option_names("gelu", 4), ElementsAre("replicate", "sequence", "features"));
  EXPECT_THAT(option_names("dropout_sequence", 3), ElementsAre("replicate", "features"));
  EXPECT_THAT(option_names("mean_sequence", 4), ElementsAre("replicate", "features", "sequence"));
  EXPECT_THAT(option_names("image_tokens", 3), ElementsAre("replicate", "height"));
  EXPECT_THAT(option_names("cross_entropy_sequence", 8), ElementsAre("replicate", "vocabulary", "sequence"));
}

TEST(Transformer, AttentionDropsTheGivenShareAndNothingInEvaluation) {
  constexpr double kDrop = 0.3;
  constexpr int64_t kPositions = 40, kSamples = 8;
  Attention layer("layer", {.heads = 2, .dropout = kDrop});
  // With equal scores and values of one, the output is the rescaled share of keys that were kept.
  TestCall call;
  at::Tensor zeros = at::zeros({kSamples, kPositions, 4}, at::kDouble), ones = at::ones_like(zeros);
  at::Tensor output = layer.forward(call, std::vector{zeros, zeros, ones});
  const double draws = 2.0 * kSamples * kPositions * kPositions;
  EXPECT_NEAR(output.mean().item<double>(), 1, 5 * std::sqrt(kDrop / (1 - kDrop) / draws));
  EXPECT_GT(output.std().item<double>(), 0.05);
  TestCall next_step, evaluation;
  next_step.step = 1;
  EXPECT_FALSE(at::equal(layer.forward(next_step, std::vector{zeros, zeros, ones}), output));
  evaluation.training = false;
  EXPECT_LT((layer.forward(evaluation, std::vector{zeros, zeros, ones}) - 1).abs().max().item<double>(), kTolerance);
}

TEST(Transformer, IgnoredPositionsCountNowhere) {
  SoftmaxCrossEntropy loss("loss", {.ignore_index = -100});
  at::Tensor logits = at::zeros({3, 4, 5}, at::kDouble), labels = at::full({3, 4}, -100, at::kLong);
  logits.select(2, 1).fill_(10);  // class 1 wins everywhere
  labels[0][0] = 1;               // right
  labels[0][3] = 2;               // wrong
  labels[1].fill_(1);             // all right; the third sample has no labels
  TestCall call;
  call.wanted_inputs = {true, false};
  at::Tensor losses = loss.forward(call, std::vector{logits, labels});
  EXPECT_DOUBLE_EQ(call.metrics.at("correct"), 0.5 + 1 + 0);
  const double right = std::log(std::exp(10.0) + 4) - 10, wrong = right + 10;
  EXPECT_NEAR(losses[0].item<double>(), (right + wrong) / 2, kTolerance);
  EXPECT_NEAR(losses[1].item<double>(), right, kTolerance);
  EXPECT_EQ(losses[2].item<double>(), 0);
  at::Tensor gradient = loss.backward(call, at::ones({3}, at::kDouble)).at(0);
  EXPECT_EQ(gradient[2].abs().max().item<double>(), 0);
  EXPECT_EQ(gradient[0].narrow(0, 1, 2).abs().max().item<double>(), 0);
  EXPECT_LT(gradient.sum(2).abs().max().item<double>(), kTolerance);
}

TEST(Transformer, AWorkerWithIgnoredPositionsOnlyDividesByTheWholeSequencesCount) {
  const LayerCase c = case_named("cross_entropy_ignore");
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  inputs[1].fill_(3).narrow(1, 0, 6).fill_(2);  // the first of two workers has only ignored labels
  TestCall whole;
  fill_call(whole, c, kSeed);
  at::Tensor losses = c.layer->forward(whole, inputs), weights = random_tensor(losses.sizes(), kSeed);
  at::Tensor gradient = c.layer->backward(whole, weights).at(0);
  const ShardingOption option = c.layer->sharding_options(c.inputs, 2).back();
  ASSERT_EQ(option.name, "sequence");
  EXPECT_EQ(option.output, Placement::replicate());  // the runtime reads the loss of one worker
  run_ranks(2, [&](Communicator& group) {
    TestCall call;
    fill_call(call, c, kSeed);
    call.option = &option;
    call.tensor_degree = 2;
    call.tensor_index = group.rank();
    call.tensor = &group;
    const int64_t first = 6 * group.rank();
    at::Tensor own = c.layer->forward(call, std::vector{inputs[0].narrow(1, first, 6), inputs[1].narrow(1, first, 6)});
    EXPECT_LT((own - losses).abs().max().item<double>(), kTolerance);
    EXPECT_LT((c.layer->backward(call, weights).at(0) - gradient.narrow(1, first, 6)).abs().max().item<double>(),
              kTolerance);
    EXPECT_DOUBLE_EQ(call.metrics.at("correct"), whole.metrics.at("correct"));
  });
}

TEST(Transformer, WrongUseIsNamed) {
  TestCall call;
  call.parameters = {at::zeros({4, 2})};
  Embedding embedding("tokens", 4, 2);
  EXPECT_THAT(message_of(Blame::user,
                         [&] {
                           embedding.forward(call, std::vector{at::full({1, 3}, 4, at::kLong)});
                         }),
              ::testing::AllOf(HasSubstr("\"tokens\""), HasSubstr("index 4"), HasSubstr("rows 0 to 3")));
  auto shapes = [](AttentionOptions options, std::vector<Shape> inputs) {
    return message_of(Blame::user, [&] { Attention("layer", options).output_shape(inputs); });
  };
  EXPECT_THAT(shapes({.heads = 3}, {{5, 8}, {5, 8}, {5, 8}}), HasSubstr("8 features for 3 heads"));
  EXPECT_THAT(shapes({.heads = 2, .causal = true}, {{5, 8}, {6, 8}, {6, 8}}), HasSubstr("causal"));
  EXPECT_THAT(shapes({.heads = 2}, {{5, 8}, {6, 8}, {5, 8}}), HasSubstr("keys and values must be equal"));
  EXPECT_THAT(shapes({.heads = 2}, {{8}, {8}, {8}}), HasSubstr("[positions, features]"));
  EXPECT_THAT(shapes({.heads = 2, .fused = true}, {{5, 2, 8}}), HasSubstr("[positions, 3, features]"));
  EXPECT_THAT(shapes({.heads = 2, .padding = true}, {{5, 8}, {6, 8}, {6, 8}, {5}}), HasSubstr("one token per key"));
  EXPECT_THAT(message_of(Blame::user, [] { Attention("layer", {.heads = 2, .dropout = 1}); }), HasSubstr("dropout 1"));
  EXPECT_THAT(message_of(Blame::user, [] { GroupNorm("layer", 10, {.groups = 4}); }),
              HasSubstr("4 groups of 10 channels"));
  EXPECT_THAT(message_of(Blame::user,
                         [] {
                           SoftmaxCrossEntropy("loss").output_shape(std::vector<Shape>{{6, 10}, {5}});
                         }),
              HasSubstr("one number per position"));
}

}  // namespace
}  // namespace trireme::test_support
