// A TorchScript module imported as a model: layers, names, values, notes.
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

TEST(Import, OperatorsBecomeLayersWithTheModulesNamesAndValues) {
  const torch::jit::Module linear =
      make_module("def forward(self, x: Tensor):\n  return torch.linear(x, self.weight, self.bias)\n",
                  {{"weight", {5, 6}}, {"bias", {5}}}, {}, {}, "Linear");
  const Script script{
      make_module("def forward(self, x: Tensor):\n  return torch.relu(self.fc.forward(x))\n", {}, {}, {{"fc", linear}}),
      {6},
      5};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("linear", "relu"));
  EXPECT_EQ(imported.model.node(2).name, "fc");
  EXPECT_EQ(imported.model.parameters().at(0).name, "fc.weight");
  EXPECT_TRUE(at::equal(imported.initial_values.at("fc.weight"), linear.attr("weight").toTensor().detach()));
  EXPECT_TRUE(imported.notes.empty());
}

TEST(Import, LoopsOverConstantsAreUnrolledAndConditionsOnSizesDecided) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  if x.size(1) > 4:
    for i in range(3):
      x = torch.tanh(x * self.weight)
  return x
)",
                                  {{"weight", {6}}}),
                      {6},
                      6};
  EXPECT_THAT(kinds_of(expect_same_as_module(script).model), ElementsAre("mul", "tanh", "mul", "tanh", "mul", "tanh"));
}

TEST(Import, SizesMayFollowTheNumberOfSamples) {
  const Script script{make_module("def forward(self, x: Tensor):\n  y = x.view(x.size(0) * 2, 3) * self.weight\n  "
                                  "return y.view(x.size(0), -1)\n",
                                  {{"weight", {3}}}),
                      {6},
                      6};
  expect_same_as_module(script);
}

TEST(Import, BatchMayBeTheSecondDim) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  y = torch.linear(x.transpose(0, 1), self.weight)
  return torch.softmax(y, 2).transpose(0, 1)
)",
                                  {{"weight", {4, 6}}}),
                      {5, 6},
                      20};
  EXPECT_THAT(kinds_of(expect_same_as_module(script).model), ElementsAre("linear", "softmax"));
}

TEST(Import, ConstantsOfOneSampleAreRepeated) {
  const Script script{
      make_module(
          "def forward(self, x: Tensor):\n  return x * self.weight + torch.ones([x.size(0), 6], dtype=x.dtype) * 3\n",
          {{"weight", {6}}}),
      {6},
      6};
  expect_same_as_module(script);
}

TEST(Import, InPlaceOperatorsAreFollowed) {
  const Script script{
      make_module(
          "def forward(self, x: Tensor):\n  y = x * self.weight\n  z = y\n  y.add_(1).relu_()\n  return z + x\n",
          {{"weight", {6}}}),
      {6},
      6};
  expect_same_as_module(script);
}

TEST(Import, AResidualOfAnInPlaceReluIsTheReludValue) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  x = x * self.weight
  kept = x
  y = torch.relu_(x)
  return y * self.weight + kept
)",
                                  {{"weight", {6}}}),
                      {6},
                      6};
  expect_same_as_module(script);
}

/// A write to a part of a tensor changes the tensor and its other parts.
TEST(Import, PartsMayBeWrittenInPlace) {
  for (const char* writes : {
           "y[:, 0] = z[:, 1]",
           "y[:, 1:3] = z[:, 0:2] * self.weight[0]",
           "y[:, :] = z * self.weight",
           "y[:, 0:3] = z[:, 5:6]",
           "y[:, ::2] = 0.5",
           "y[:, 4] = 0.0\n  y[:, 0:2].mul_(2)\n  y[:, 1:4].add_(z[:, 3:6])",
           "y.select(1, 2).copy_(z.select(1, 0))\n  y.narrow(1, -2, 2).fill_(3.0)",
           "part = y[:, 0:4]\n  other = y[:, 2:6]\n  part.mul_(z[:, 0:4])\n  z = other * 2 + other.sum(1, True) + z[:, "
           "0:4]\n  "
           "z = torch.cat([z, part[:, 0:2]], 1)",
           "y.view([-1, 2, 3])[:, 1, 0:2] = z[:, 0:2]",
           "y.view([-1, 2, 3]).transpose(1, 2)[:, 2] += z[:, 0:2]",
           "y.t()[0:2].mul_(2)",
           "y[:, 3][z[:, 0] > 0] = 1.5",
           "z = torch.zeros([x.size(0), 6], dtype=x.dtype)\n  z[:, 1:4] = y[:, 0:3]\n  z[:, 5] = 2.0\n  z[:, "
           "0:2].add_(z[:, 1:3])",
       }) {
    SCOPED_TRACE(writes);
    expect_same_as_module(
        {make_module(std::string("def forward(self, x: Tensor):\n  y = x * self.weight\n  z = torch.tanh(x)\n  ") +
                         writes + "\n  return y * z\n",
                     {{"weight", {6}}}),
         {6},
         6});
  }
}

TEST(Import, TheDataMayBeWrittenInPlace) {
  const char* source = "def forward(self, x: Tensor):\n  x[:, 0:2] = 0.5\n  x[:, 5].neg_()\n  return x * self.weight\n";
  expect_same_as_module({make_module(source, {{"weight", {6}}}), {6}, 6});
}

TEST(Import, WritingToAPartLeavesTheOtherDimsToBeSplit) {
  const Script script{
      make_module("def forward(self, x: Tensor):\n  y = x * self.weight\n  y[:, 0] = x[:, 1]\n  y[:, 2:4] = 1.0\n  "
                  "return torch.logcumsumexp(y, 1)\n",
                  {{"weight", {8}}}),
      {6, 8},
      48};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), Contains("slice_scatter"));
  for (const LayerRow& row : describe_layers(imported.model)) {
    if (row.kind == "slice_scatter" || row.kind == "select_scatter") {
      EXPECT_EQ(row.splits, "split by features");
    }
  }
}

TEST(Import, TakesTheFirstOfSeveralOutputsAndLeavesOutTheRest) {
  const Script script{make_module("def forward(self, x: Tensor):\n  return x * self.used, x * self.unused\n",
                                  {{"used", {6}}, {"unused", {6}}}),
                      {6},
                      6};
  const ImportedModel imported = script.import();
  EXPECT_EQ(imported.model.parameters().size(), 1u);
  EXPECT_THAT(imported.notes, Contains(HasSubstr("output[0] is trained")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("\"unused\"")));
}

TEST(Import, TakesOutOfADict) {
  const Script script{
      make_module("def forward(self, x: Tensor):\n  return {\"aux\": x * self.a, \"out\": x * self.b}\n",
                  {{"a", {6}}, {"b", {6}}}),
      {6},
      6};
  const ImportedModel imported = script.import();
  EXPECT_EQ(imported.model.parameters().at(0).name, "b");
  EXPECT_THAT(imported.notes, Contains(HasSubstr("[\"out\"]")));
}

/// As in nn.TransformerEncoder in evaluation without gradients.
TEST(Import, AShortcutForPaddingAtTheRightIsNotTaken) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  y = x * self.weight
  keep = x.select(2, 0).gt(-0.5)
  if not self.training:
    if torch._nested_tensor_from_mask_left_aligned(y, keep):
      y = torch._nested_tensor_from_mask(y, keep, False).to_padded_tensor(0.0)
  return y.masked_fill(keep.logical_not().unsqueeze(2), 0.5)
)",
                                  {{"weight", {6}}}),
                      {5, 6},
                      30};
  expect_same_as_module(script);
}

TEST(Import, OperatorsWithoutALayerOrRuleBecomeOpaqueLayers) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  y = torch.logcumsumexp(x * self.first, 1)
  z = torch.logcumsumexp(torch.cumprod(y, 1), 1)
  return torch.relu(z * self.second)
)",
                                  {{"first", {6}}, {"second", {6}}}),
                      {6},
                      6};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("mul", "script", "mul", "relu"));
  const std::vector<LayerRow> rows = describe_layers(imported.model);
  EXPECT_TRUE(rows.at(1).opaque);
  EXPECT_THAT(rows[1].splits, HasSubstr("replicate only, because there is no rule for splitting aten::logcumsumexp"));
  EXPECT_EQ(rows[0].splits, "split by channels");
  EXPECT_EQ(rows[0].parameters, 6);
  EXPECT_EQ(rows[0].activation_bytes, 24);
}

TEST(Import, ParametersMayBeComputedWith) {
  const Script script{make_module("def forward(self, x: Tensor):\n  return torch.linear(x, self.weight / "
                                  "self.weight.norm(2, [1], True), self.bias)\n",
                                  {{"weight", {4, 6}}, {"bias", {4}}}),
                      {6},
                      4};
  EXPECT_THAT(kinds_of(expect_same_as_module(script).model), ElementsAre("script"));
}

/// As in nn.MultiheadAttention: inside, the heads' output is [positions * samples, features].
TEST(Import, SamplesMayBeFoldedBehindPositions) {
  const Script script{make_module(R"(
def forward(self, x: Tensor):
  n, t, e = x.size(0), x.size(1), x.size(2)
  y = torch.tanh(x.transpose(0, 1)).reshape(t * n, e)
  y = torch.relu(torch.linear(y, self.weight, self.bias)) * self.bias
  return y.view(t, n, y.size(1)).transpose(0, 1)
)",
                                  {{"weight", {4, 6}}, {"bias", {4}}}),
                      {5, 6},
                      20};
  EXPECT_THAT(kinds_of(expect_same_as_module(script).model), ElementsAre("tanh", "linear", "relu", "mul"));
}

TEST(Import, AModuleUsedTwiceSharesItsParameters) {
  const torch::jit::Module linear =
      make_module("def forward(self, x: Tensor):\n  return torch.linear(x, self.weight, self.bias)\n",
                  {{"weight", {6, 6}}, {"bias", {6}}}, {}, {}, "Linear");
  const Script script{
      make_module("def forward(self, x: Tensor):\n  return self.fc.forward(torch.tanh(self.fc.forward(x)))\n", {}, {},
                  {{"fc", linear}}),
      {6},
      6};
  const ImportedModel imported = expect_same_as_module(script);
  EXPECT_EQ(imported.model.parameters().size(), 2u);
  EXPECT_THAT(kinds_of(imported.model), ElementsAre("linear", "tanh", "linear"));
}

TEST(Import, FrozenParametersAreListed) {
  torch::jit::Module module =
      make_module("def forward(self, x: Tensor):\n  return x * self.scale * self.fixed + self.table[1]\n",
                  {{"scale", {6}}, {"fixed", {6}}}, {{"table", random_tensor({2, 6}, 3)}});
  module.attr("fixed").toTensor().set_requires_grad(false);
  const ImportedModel imported = Script{module, {6}, 6}.import();
  EXPECT_THAT(imported.frozen, ElementsAre("fixed"));
}

TEST(Import, HalfPrecisionIsWidened) {
  torch::jit::Module module("Model");
  module.register_parameter("weight", at::ones({6}, at::kHalf), false);
  module.register_buffer("index", at::arange(6));
  module.define("def forward(self, x: Tensor):\n  return x[:, self.index] * self.weight\n");
  const ImportedModel imported = Script{module, {6}, 6}.import();
  EXPECT_EQ(imported.initial_values.at("weight").scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace trireme::test_support
