// Operators of a TorchScript module that are imported as layers of the zoo: norms, dropout, embeddings, LSTMs,
// attention.
#include "model/import/import.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/import/describe.h"
#include "script_modules.h"

namespace trireme::test_support {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kBatchNorm = R"(
def forward(self, x: Tensor):
  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, {}, 0.1, 1e-5, True)
)";

torch::jit::Module batch_norm(const std::string& mode) {
  std::string source = kBatchNorm;
  source.replace(source.find("{}"), 2, mode);
  return make_module(
      source, {{"weight", {4}}, {"bias", {4}}},
      {{"running_mean", at::full({4}, 0.3, at::kDouble)}, {"running_var", at::full({4}, 2.0, at::kDouble)}}, {},
      "BatchNorm");
}

Script normed(const std::string& mode) {
  return {make_module("def forward(self, x: Tensor):\n  return torch.relu(self.bn.forward(x) + x)\n", {}, {},
                      {{"bn", batch_norm(mode)}}),
          {4, 3, 3},
          36};
}

TEST(Import, BatchNormTakesTheSumAndTheReluAfterIt) {
  const ImportedModel imported = expect_same_as_module(normed("self.training"));
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("batch_norm"));
  EXPECT_TRUE(imported.notes.empty());
  expect_same_as_module(normed("self.training"), /*training=*/false);
}

TEST(Import, ATracedEvaluationKeepsItsStatistics) {
  const ImportedModel imported = expect_same_as_module(normed("False"));
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("fixed_batch_norm", "add", "relu"));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("1 batch norms are fixed to evaluation mode")));
}

TEST(Import, ATracedTrainingUsesRunningStatisticsInEvaluation) {
  const ImportedModel imported = expect_same_as_module(normed("True"));
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("batch_norm"));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("fixed to training mode")));
  expect_same_as_module(normed("self.training"), /*training=*/false);
}

TEST(Import, BatchNormOfSequencesIsTheSameLayer) {
  const Script script{
      make_module("def forward(self, x: Tensor):\n  return torch.relu(self.bn.forward(torch.tanh(x)))\n", {}, {},
                  {{"bn", batch_norm("self.training")}}),
      {4, 6},
      24};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("tanh", "batch_norm"));
  EXPECT_EQ(describe_layers(imported.model).at(1).splits, "split by channels, sequence");
  expect_same_as_module(script, /*training=*/false);
}

TEST(Import, DropoutBecomesALayerAndWarnsIfTracingDisabledIt) {
  const Script on{
      make_module("def forward(self, x: Tensor):\n  return torch.dropout(x * self.weight, 0.5, self.training)\n",
                  {{"weight", {6}}}),
      {6},
      6};
  EXPECT_THAT(kinds_of(on.import().model), ElementsAre("mul", "dropout"));
  EXPECT_TRUE(on.import().notes.empty());
  const Script off{make_module("def forward(self, x: Tensor):\n  return torch.dropout(x * self.weight, 0.5, False)\n",
                               {{"weight", {6}}}),
                   {6},
                   6};
  EXPECT_THAT(kinds_of(off.import().model), ElementsAre("mul"));
  EXPECT_THAT(off.import().notes, Contains(HasSubstr("disabled")));
  const Script always{make_module("def forward(self, x: Tensor):\n  return torch.dropout(x * self.weight, 0.5, True)\n",
                                  {{"weight", {6}}}),
                      {6},
                      6};
  EXPECT_THAT(always.import().notes, Contains(HasSubstr("fixed to training mode")));
}

TEST(Import, StochasticDepthIsRecognisedByItsOperators) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  y = x * self.weight
  if self.training:
    noise = torch.empty([y.size(0), 1], dtype=y.dtype).bernoulli_(0.8).div_(0.8)
    y = y * noise
  return y + x
)",
                                  {{"weight", {6}}}),
                      {6},
                      6};
  EXPECT_THAT(kinds_of(script.import().model), ElementsAre("mul", "drop_samples", "add"));
}

TEST(Import, TokensAreEmbedded) {
  const torch::jit::Module table =
      make_module("def forward(self, x: Tensor):\n  return torch.embedding(self.weight, x, -1, False, False)\n",
                  {{"weight", {9, 4}}}, {}, {}, "Embedding");
  const Script script{make_module("def forward(self, x: Tensor):\n  return self.embed.forward(x).mean(1)\n", {}, {},
                                  {{"embed", table}}),
                      {5},
                      4,
                      9};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("embedding", "mean"));
}

TEST(Import, PaddingOfAnEmbeddingHasNoGradient) {
  const torch::jit::Module table =
      make_module("def forward(self, x: Tensor):\n  return torch.embedding(self.weight, x, 2, False, False)\n",
                  {{"weight", {6, 4}}}, {}, {}, "Embedding");
  const Script script{make_module("def forward(self, x: Tensor):\n  return self.embed.forward(x).mean(1)\n", {}, {},
                                  {{"embed", table}}),
                      {9},
                      4,
                      6};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("embedding", "mean"));
  EXPECT_EQ(describe_layers(imported.model, 3).at(0).splits, "split by vocabulary, sequence");
}

/// nn.EmbeddingBag of [n, 9] ids below 6.
Script bags(int mode, const std::string& padding, const std::string& offsets = "torch.arange(0, x.numel(), x.size(1))",
            const std::string& last = "False") {
  const torch::jit::Module table =
      make_module(fmt::format("def forward(self, x: Tensor):\n  return torch.embedding_bag(self.weight, "
                              "x.reshape([-1]), {}, False, {}, False, None, "
                              "{}, {})[0]\n",
                              offsets, mode, last, padding),
                  {{"weight", {6, 4}}}, {}, {}, "EmbeddingBag");
  return {make_module("def forward(self, x: Tensor):\n  return torch.tanh(self.bag.forward(x))\n", {}, {},
                      {{"bag", table}}),
          {9},
          4,
          6};
}

TEST(Import, EmbeddingBagsAreEmbeddingsAndSums) {
  EXPECT_THAT(kinds_of(expect_same_as_module(bags(0, "None")).model), ElementsAre("embedding", "sum", "tanh"));
  EXPECT_THAT(kinds_of(expect_same_as_module(bags(1, "None")).model), ElementsAre("embedding", "mean", "tanh"));
  EXPECT_THAT(kinds_of(expect_same_as_module(bags(2, "None")).model), ElementsAre("embedding", "amax", "tanh"));
  for (int mode : {0, 1})
    for (const char* padding : {"2", "-1"}) {
      SCOPED_TRACE(padding);
      EXPECT_EQ(kinds_of(expect_same_as_module(bags(mode, padding)).model).front(), "embedding");
    }
  expect_same_as_module(bags(1, "None", "torch.arange(0, x.numel() + 1, x.size(1))", "True"));
}

/// nn.LSTM with 5 features and 3 hidden units over 4 positions. `mode`: its argument `training`.
Script lstm(int layers, int directions, double dropout, const std::string& mode) {
  constexpr int64_t kFeatures = 5, kHidden = 3, kPositions = 4;
  Shapes shapes;
  std::string list;
  for (int layer = 0; layer < layers; ++layer)
    for (int d = 0; d < directions; ++d) {
      const std::string end = "_l" + std::to_string(layer) + (d ? "_reverse" : "");
      shapes["weight_ih" + end] = {4 * kHidden, layer == 0 ? kFeatures : kHidden * directions};
      shapes["weight_hh" + end] = {4 * kHidden, kHidden};
      shapes["bias_ih" + end] = shapes["bias_hh" + end] = {4 * kHidden};
      for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
        list += (list.empty() ? "self." : ", self.") + (part + end);
    }
  const std::string source =
      fmt::format(R"(
def forward(self, x: Tensor):
  h = torch.zeros([{}, x.size(0), {}], dtype=x.dtype)
  y, hn, cn = torch.lstm(x, [h, h], [{}], True, {}, {:.1f}, {}, {}, True)
  return y
)",
                  layers * directions, kHidden, list, layers, dropout, mode, directions == 2 ? "True" : "False");
  const torch::jit::Module module = make_module(source, shapes, {}, {}, "LSTM");
  return {make_module("def forward(self, x: Tensor):\n  return self.rnn.forward(x)\n", {}, {}, {{"rnn", module}}),
          {kPositions, kFeatures},
          kPositions * kHidden * directions};
}

TEST(Import, LstmOfSeveralLayersAndBothDirections) {
  for (int directions : {1, 2}) {
    const ImportedModel imported = expect_same_as_module(lstm(2, directions, 0, "self.training"));
    if (directions == 1) {
      EXPECT_THAT(kinds_of(imported.model), ElementsAre("lstm", "lstm"));
    } else {
      EXPECT_THAT(kinds_of(imported.model), ElementsAre("lstm", "lstm", "concat", "lstm", "lstm", "concat"));
    }
    EXPECT_TRUE(imported.initial_values.contains("rnn.weight_ih_l1"));
  }
}

TEST(Import, ATracedLstmIsFixedToAModeOnlyWhereItDropsOut) {
  for (const char* mode : {"True", "False"}) {
    EXPECT_THAT(lstm(2, 1, 0, mode).import().notes, ::testing::IsEmpty());
    EXPECT_THAT(lstm(1, 1, 0.5, mode).import().notes, ::testing::IsEmpty()) << "between layers, of which there is one";
  }
  EXPECT_THAT(lstm(2, 1, 0.5, "True").import().notes, ElementsAre(HasSubstr("fixed to training mode")));
  EXPECT_THAT(lstm(2, 1, 0.5, "False").import().notes, ElementsAre(HasSubstr("disabled")));
}

constexpr const char* kFusedAttention = R"(
def forward(self, x: Tensor):
  n, t, e = x.size(0), x.size(1), x.size(2)
  qkv = torch.linear(x, self.weight, self.bias).reshape(n, t, 3, 2, e // 2).permute(2, 0, 3, 1, 4)
  q, k, v = qkv[0] * 0.5, qkv[1], qkv[2]
  scores = torch.matmul(q, k.transpose(2, 3))
  MASK
  return torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(n, t, e)
)";

Script fused_attention(const std::string& mask) {
  std::string source = kFusedAttention;
  source.replace(source.find("MASK"), 4, mask);
  return {make_module(source, {{"weight", {24, 8}}, {"bias", {24}}}), {5, 8}, 40};
}

TEST(Import, AttentionOfFusedProjectionsIsRecognised) {
  EXPECT_THAT(kinds_of(expect_same_as_module(fused_attention("pass")).model), ElementsAre("linear", "attention"));
}

TEST(Import, ACausalMaskIsRecognised) {
  // dtype 11 is bool; modules defined in C++ cannot name it.
  const std::string mask = "scores = scores.masked_fill(torch.ones([t, t], dtype=11).triu(1), float(\"-inf\"))";
  EXPECT_THAT(kinds_of(expect_same_as_module(fused_attention(mask)).model), ElementsAre("linear", "attention"));
}

TEST(Import, AlmostAttentionStaysItsOperators) {
  const ImportedModel imported = expect_same_as_module(fused_attention("scores = scores * 1.5"));
  EXPECT_THAT(kinds_of(imported.model), Contains("softmax"));
  EXPECT_THAT(kinds_of(imported.model), ::testing::Not(Contains("attention")));
}

TEST(Import, AttentionOfSeparateProjectionsWithTheBatchInside) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  n, t, e = x.size(0), x.size(1), x.size(2)
  y = x.transpose(0, 1)
  q = torch.linear(y, self.q).reshape(t, n * 2, e // 2).transpose(0, 1)
  k = torch.linear(y, self.k).reshape(t, n * 2, e // 2).transpose(0, 1)
  v = torch.linear(y, self.v).reshape(t, n * 2, e // 2).transpose(0, 1)
  weights = torch.softmax(torch.bmm(q / 2.0, k.transpose(1, 2)), -1)
  return torch.bmm(weights, v).transpose(0, 1).reshape(t, n, e).transpose(0, 1)
)",
                                  {{"q", {8, 8}}, {"k", {8, 8}}, {"v", {8, 8}}}),
                      {5, 8},
                      40};
  EXPECT_THAT(kinds_of(expect_same_as_module(script).model), ElementsAre("linear", "linear", "linear", "attention"));
}

}  // namespace
}  // namespace trireme::test_support
