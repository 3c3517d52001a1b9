// Modules that cannot be imported: the error is one line that names the node and what to do.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../../base/expect_error.h"
#include "script_modules.h"

namespace trireme::test_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Imports a module and returns the error's message.
std::string refusal(const std::string& source, const Shape& sample = {6}, const Shapes& parameters = {{"weight", {6}}},
                    const Tensors& buffers = {}, const std::map<std::string, torch::jit::Module>& children = {}) {
  try {
    Script{make_module(source, parameters, buffers, children), sample, 1}.import();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::user) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it was imported";
  return "";
}

TEST(ImportErrors, ControlFlowThatDependsOnData) {
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  if bool(x.sum() > 0):\n    x = x * 2\n  return x * self.weight\n"),
      AllOf(HasSubstr("aten::Bool"), HasSubstr(":2"), HasSubstr("to a Python number")));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return x * self.weight[0].item()\n"), HasSubstr("aten::item"));
}

TEST(ImportErrors, ModesThatComputeDifferently) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  if self.training:\n    return torch.tanh(x * self.weight)\n  "
                      "return torch.relu(x * self.weight)\n"),
              AllOf(HasSubstr("aten::tanh"), HasSubstr("in training differs from what is computed in evaluation")));
  EXPECT_THAT(
      refusal(
          "def forward(self, x: Tensor):\n  a = 1.0\n  if self.training:\n    a = 2.0\n  return x * self.weight * a\n"),
      AllOf(HasSubstr("aten::mul"), HasSubstr("different numbers in training and in evaluation")));
}

TEST(ImportErrors, SamplesThatDependOnEachOther) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return (x - x.mean(0)) * self.weight\n"),
              HasSubstr("mixes the samples of a batch"));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return (x / x.max()) * self.weight\n"),
              HasSubstr("mixes the samples of a batch"));
}

TEST(ImportErrors, SamplesFoldedBehindPositionsAndMixed) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  y = (x * self.weight).transpose(0, 1).reshape(3 * x.size(0), "
                      "2)\n  return y.cumsum(0)\n",
                      {3, 2}, {{"weight", {2}}}),
              AllOf(HasSubstr("aten::cumsum"), HasSubstr("the inner part of a folded dim")));
}

TEST(ImportErrors, SizesOfTheExampleBatch) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return (x * self.weight).view(2, 6)\n"),
              AllOf(HasSubstr("aten::view"), HasSubstr("fails with 3 samples"), HasSubstr("traced")));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return x * self.weight * float(x.size(0))\n"),
              HasSubstr("changes with the number of samples, but not in proportion"));
}

TEST(ImportErrors, RandomNumbers) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return x * self.weight + torch.rand_like(x)\n"),
              AllOf(HasSubstr("aten::rand_like"), HasSubstr("draws random numbers")));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return x * torch.dropout(self.weight, 0.5, self.training)\n"),
              AllOf(HasSubstr("aten::dropout"), HasSubstr("is a kind of dropout that no layer supports")));
}

TEST(ImportErrors, StateThatChanges) {
  const Tensors counter{{"seen", at::zeros({}, at::kDouble)}};
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  self.seen.add_(1)\n  return x * self.weight / self.seen\n", {6},
                      {{"weight", {6}}}, counter),
              AllOf(HasSubstr("reads the buffer \"seen\""), HasSubstr("aten::add_")));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  self.seen.copy_(x.sum())\n  return x * self.weight\n", {6},
                      {{"weight", {6}}}, counter),
              HasSubstr("writes data to the buffer \"seen\""));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  self.weight.clamp_(-1, 1)\n  return x * self.weight\n"),
              HasSubstr("changes the parameter \"weight\""));
}

TEST(ImportErrors, BatchNormThatNoLayerHas) {
  const Shapes parameters{{"weight", {4}}, {"bias", {4}}};
  const Tensors buffers{{"running_mean", at::zeros({4}, at::kDouble)}, {"running_var", at::ones({4}, at::kDouble)}};
  const std::string arguments =
      "(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5, True)";
  const torch::jit::Module norm =
      make_module("def forward(self, x: Tensor):\n  return torch.batch_norm" + arguments + "\n", parameters, buffers,
                  {}, "BatchNorm");
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  return self.bn.forward(x) * self.weight\n", {4, 5, 5, 5},
              {{"weight", {1}}}, {}, {{"bn", norm}}),
      AllOf(HasSubstr("aten::batch_norm"), HasSubstr("changes running statistics but is not a batch norm layer")));
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  return self.bn.forward(torch.tanh(self.bn.forward(x))) * self.weight\n",
              {4, 5, 5}, {{"weight", {1}}}, {}, {{"bn", norm}}),
      HasSubstr("used once"));
}

TEST(ImportErrors, PartsThatAreWrittenToAndHaveNoWayBack) {
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  y = x * self.weight\n  torch.chunk(y, 2, 1)[0].mul_(2)\n  return y\n"),
      AllOf(HasSubstr("shares memory with one which was changed in place"), HasSubstr("y[:, 0] = z")));
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  y = x * self.weight\n  y.diagonal(0, 1, 2).mul_(2)\n  return y\n",
              {6, 6}),
      AllOf(HasSubstr("aten::mul_"), HasSubstr(":3"), HasSubstr("a part of a tensor that aten::diagonal"),
            HasSubstr("y[:, 0] = z")));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  self.weight[0:2].mul_(2)\n  return x * self.weight\n"),
              HasSubstr("changes the parameter \"weight\""));
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  self.seen[0:2].add_(x.sum())\n  return x * self.weight\n", {6},
                      {{"weight", {6}}}, {{"seen", at::zeros({6}, at::kDouble)}}),
              HasSubstr("writes data to the buffer \"seen\""));
}

TEST(ImportErrors, BagsOfDifferentLengths) {
  EXPECT_THAT(
      refusal(
          "def forward(self, x: Tensor):\n  return torch.embedding_bag(self.weight, x.long().abs().reshape([-1]) % 5, "
          "torch.arange(0, x.size(0)), False, 0, False, None, False, None)[0]\n",
          {6}, {{"weight", {5, 4}}}),
      AllOf(HasSubstr("aten::embedding_bag"), HasSubstr("bags of different lengths (offsets)"),
            HasSubstr("padding_idx")));
}

TEST(ImportErrors, WhatTheModuleItselfRaises) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  assert x.size(1) == 7, \"expected 7 features\"\n  return x * "
                      "self.weight\n"),
              AllOf(HasSubstr("the module raises"), HasSubstr("expected 7 features")));
  EXPECT_THAT(
      refusal("def forward(self, x: Tensor):\n  return torch.linear(x, self.weight)\n", {5}, {{"weight", {4, 6}}}),
      HasSubstr("fails with 2 samples"));
}

TEST(ImportErrors, OperatorsWithoutAGradient) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return torch._thnn_fused_gru_cell(x, x, x)[0]\n"),
              HasSubstr("aten::_thnn_fused_gru_cell"));
}

TEST(ImportErrors, MoreThanOneInput) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor, y: Tensor):\n  return x * self.weight + y\n"),
              HasSubstr("forward takes 2 inputs"));
}

TEST(ImportErrors, ModulesWithoutParameters) {
  EXPECT_THAT(refusal("def forward(self, x: Tensor):\n  return x * 2\n", {6}, {}),
              HasSubstr("a module without parameters"));
}

TEST(ImportErrors, FilesThatAreNoTorchScript) {
  const auto path = std::filesystem::temp_directory_path() / ("trireme-no-script-" + std::to_string(getpid()) + ".pt");
  std::ofstream(path) << "weights";
  const auto import = [&] { import_torchscript(path, {{6}}, {}); };
  EXPECT_THAT([&] { import(); }, ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("is not a TorchScript file"),
                                                                       HasSubstr("\"PK\""), HasSubstr("damaged"))));
  std::filesystem::remove(path);
}

TEST(ImportErrors, FilesDamagedAtTheirStart) {
  for (int damaged : {0, 1, 2, 3}) {
    const SavedModule file(make_module("def forward(self, x: Tensor):\n  return x * self.weight\n", {{"weight", {6}}}));
    std::fstream stream(file.path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(damaged);
    const char flipped = char(stream.get() ^ 1);
    stream.seekp(damaged).put(flipped);
    stream.close();
    EXPECT_THAT([&] { import_torchscript(file.path, {{6}}, {}); },
                ::testing::ThrowsMessage<Error>(HasSubstr("damaged at its start")));
  }
}

}  // namespace
}  // namespace trireme::test_support
