// Matching a file's tensors with a model's parameters.
#include "model/weights/match.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "model/weights/file_shapes.h"
#include "support.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kPartial = MatchOptions::Rule::partial;

/// fc1 [5, 4], bn [5], fc2 [3, 5].
Model small_model() {
  ModelBuilder b("small");
  NodeId x = b.input("data", {4});
  const NodeId target = b.input("target", {});
  x = b.layer<Linear>({x}, "fc1", 4, 5);
  x = b.layer<BatchNorm>({x}, "bn", 5);
  x = b.layer<Linear>({x}, "fc2", 5, 3);
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

TensorMap small_weights() {
  return {{"fc1.weight", at::randn({5, 4})},
          {"fc1.bias", at::randn({5})},
          {"bn.weight", at::randn({5})},
          {"bn.bias", at::randn({5})},
          {"bn.running_mean", at::randn({5})},
          {"bn.running_var", at::rand({5})},
          {"bn.num_batches_tracked", at::tensor(int64_t{7})},
          {"fc2.weight", at::randn({3, 5})},
          {"fc2.bias", at::randn({3})}};
}

/// "lm_head" uses the weight of "wte".
Model tied_model() {
  ModelBuilder b("tied");
  NodeId x = b.input("data", {6});
  const NodeId target = b.input("target", {6});
  x = b.layer<Embedding>({x}, "wte", 10, 4);
  x = b.layer<Linear>({x}, "lm_head", 4, 10, LinearOptions{.bias = false, .weight_name = "wte.weight"});
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

TEST(MatchWeights, AFileOfTheModelMatchesWhole) {
  const Model model = small_model();
  const TensorMap file = small_weights();
  const WeightsMatch match = match_weights(model, file, {}, "x.pt");
  EXPECT_TRUE(match.is_complete());
  EXPECT_EQ(match.tensors.size(), 8u);
  for (const auto& [name, tensor] : match.tensors) EXPECT_TRUE(tensor.is_alias_of(file.at(name))) << name;
  EXPECT_THAT(match.derived, ElementsAre("bn.num_batches_tracked"));
  EXPECT_EQ(
      render(match, model, "x.pt"),
      "x.pt: 8 of 8 tensors of model \"small\" (63 values)\n  1 in the file and not needed (bn.num_batches_tracked)\n");
}

TEST(MatchWeights, StrictRefusesWhatDiffers) {
  const Model model = small_model();
  TensorMap file = small_weights();
  file.erase("bn.running_var");
  EXPECT_THAT(user_error([&] { match_weights(model, file, {}, "x.pt"); }),
              AllOf(HasSubstr("x.pt: not everything fits model \"small\": 1 missing (bn.running_var);"),
                    HasSubstr("load it in part")));
  file["fc2.weight"] = at::randn({1000, 5});
  file["extra"] = at::randn({1});
  EXPECT_THAT(
      user_error([&] { match_weights(model, file, {}, "x.pt"); }),
      HasSubstr("1 missing (bn.running_var), 1 of another shape or dtype (fc2.weight is [1000, 5], not [3, 5]), "
                "1 unexpected (extra)"));
}

TEST(MatchWeights, PartialLeavesAnotherHeadAlone) {
  const Model model = small_model();
  TensorMap file = small_weights();
  file["fc2.weight"] = at::randn({1000, 5});
  file["fc2.bias"] = at::randn({1000});
  file["aux.weight"] = at::randn({2, 2});
  file.erase("bn.bias");
  const WeightsMatch match = match_weights(model, file, {.rule = kPartial}, "x.pt");
  EXPECT_FALSE(match.is_complete());
  EXPECT_EQ(match.tensors.size(), 5u);
  EXPECT_EQ(match.tensors.count("fc2.weight"), 0u);
  EXPECT_THAT(match.missing, ElementsAre("bn.bias"));
  EXPECT_THAT(match.unexpected, ElementsAre("aux.weight"));
  EXPECT_EQ(render(match, model, "x.pt"),
            "x.pt: 5 of 8 tensors of model \"small\" (40 values)\n"
            "  2 left at their initial values, of another shape in the file (fc2.weight is [1000, 5], not [3, 5], "
            "fc2.bias is [1000], not [3])\n"
            "  1 left at their initial values, missing in the file (bn.bias)\n"
            "  1 in the file only (aux.weight)\n"
            "  1 in the file and not needed (bn.num_batches_tracked)\n");
}

TEST(MatchWeights, SkippedPrefixesAreLeftAloneUnderEitherRule) {
  const Model model = small_model();
  TensorMap file = small_weights();
  file["fc2.weight"] = at::randn({1000, 5});
  file.erase("fc2.bias");
  const WeightsMatch match = match_weights(model, file, {.skip = {"fc2."}}, "x.pt");
  EXPECT_TRUE(match.is_complete());
  EXPECT_THAT(match.skipped, ElementsAre("fc2.weight", "fc2.bias"));
  EXPECT_THAT(match.unexpected, IsEmpty()) << "what is skipped may be in the file";
  EXPECT_THAT(render(match, model, "x"),
              HasSubstr("2 left at their initial values, as requested (fc2.weight, fc2.bias)"));
}

TEST(MatchWeights, WhatIsToBeSkippedMustBeThere) {
  const std::string error = user_error([] {
    match_weights(small_model(), small_weights(), {.skip = {"fc2.", "head."}}, "x.pt");
  });
  EXPECT_THAT(error, AllOf(HasSubstr("weights_skip"), HasSubstr("\"head.\""), HasSubstr("fc1.weight")));
}

TEST(MatchWeights, WhatIsNoTensorIsNotCalledMissing) {
  TensorMap file = small_weights();
  file.erase("fc1.bias");
  MatchOptions options{.not_tensors = {"epoch", "fc1.bias"}};
  const std::string error = user_error([&] { match_weights(small_model(), file, options, "x.pt"); });
  EXPECT_THAT(error, AllOf(HasSubstr("fc1.bias is no tensor, not [5]"), ::testing::Not(HasSubstr("missing"))));
  options.rule = kPartial;
  EXPECT_EQ(match_weights(small_model(), file, options, "x.pt").mismatched.size(), 1u);
}

TEST(MatchWeights, AFileOfAnotherModelIsRefusedEvenInPart) {
  const TensorMap file{{"conv.weight", at::randn({2})}};
  EXPECT_THAT(user_error([&] { match_weights(small_model(), file, {.rule = kPartial}, "x.pt"); }),
              AllOf(HasSubstr("nothing fits model \"small\""), HasSubstr("check that the file belongs to this model")));
  EXPECT_THAT(user_error([&] { match_weights(small_model(), {}, {.rule = kPartial}, "x.pt"); }),
              HasSubstr("nothing fits"));
}

TEST(MatchWeights, APrefixIsTakenOffOrPointedOut) {
  TensorMap file;
  for (const auto& [name, tensor] : small_weights()) file["module." + name] = tensor;
  EXPECT_TRUE(match_weights(small_model(), file, {.prefix = "module."}, "x.pt").is_complete());
  EXPECT_THAT(user_error([&] { match_weights(small_model(), file, {}, "x.pt"); }),
              HasSubstr("with a prefix: set weights_prefix = \"module.\""));
  file["other"] = at::randn({1});
  EXPECT_THAT(match_weights(small_model(), file, {.rule = kPartial, .prefix = "module."}, "x.pt").unexpected,
              ElementsAre("other"));
}

TEST(MatchWeights, AnLstmsGatesMayBeOneDimWithItsUnits) {
  ModelBuilder b("lstm");
  NodeId x = b.input("data", {2, 3});
  const NodeId target = b.input("target", {2});
  x = b.layer<Lstm>({x}, "lstm", 3, 5);
  const Model model = b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
  const at::Tensor input = at::randn({20, 3}), hidden = at::randn({20, 5});
  TensorMap file{{"lstm.weight_ih_l0", input},
                 {"lstm.weight_hh_l0", hidden},
                 {"lstm.bias_ih_l0", at::randn({20})},
                 {"lstm.bias_hh_l0", at::randn({20})}};
  ASSERT_EQ(model.parameters()[0].name, "lstm.weight_ih_l0");
  const WeightsMatch match = match_weights(model, file, {}, "x.pt");
  EXPECT_TRUE(at::equal(match.tensors.at("lstm.weight_ih_l0"), input.view({4, 5, 3})));
  EXPECT_TRUE(at::equal(match.tensors.at("lstm.bias_hh_l0"), file["lstm.bias_hh_l0"].view({4, 5})));
  file["lstm.weight_hh_l0"] = hidden.t().contiguous();  // the same values in another order
  EXPECT_THAT(user_error([&] { match_weights(model, file, {}, "x.pt"); }),
              HasSubstr("weight_hh_l0 is [5, 20], not [4, 5, 5]"));
}

TEST(MatchWeights, OnlyLeadingDimsMayBeMerged) {
  const Model model = small_model();
  TensorMap file = small_weights();
  file["fc1.weight"] = at::randn({1, 5, 4});
  file["bn.bias"] = at::randn({1, 5});
  EXPECT_TRUE(match_weights(model, file, {}, "x").is_complete());
  for (const Shape& shape : {Shape{4, 5}, Shape{5, 2, 2}, Shape{5, 4, 1}, Shape{2, 10}}) {
    file["fc1.weight"] = at::randn(shape);
    EXPECT_EQ(match_weights(model, file, {.rule = kPartial}, "x").mismatched.size(), 1u) << to_string(shape);
  }
}

TEST(MatchWeights, TiedParametersMayComeUnderEitherNameOrBoth) {
  const Model model = tied_model();
  const at::Tensor weight = at::randn({10, 4});
  for (const TensorMap& file : {TensorMap{{"wte.weight", weight}}, TensorMap{{"lm_head.weight", weight}},
                                TensorMap{{"wte.weight", weight}, {"lm_head.weight", weight.clone()}}}) {
    const WeightsMatch match = match_weights(model, file, {}, "x.pt");
    ASSERT_EQ(match.tensors.size(), 1u);
    EXPECT_TRUE(at::equal(match.tensors.at("wte.weight"), weight));
  }
  const TensorMap differ{{"wte.weight", weight}, {"lm_head.weight", weight + 1}};
  for (auto rule : {MatchOptions::Rule::strict, kPartial})
    EXPECT_THAT(user_error([&] { match_weights(model, differ, {.rule = rule}, "x.pt"); }),
                HasSubstr("x.pt: tensors \"wte.weight\" and \"lm_head.weight\" differ"));
}

TEST(MatchWeights, IntegersAreNoParameters) {
  TensorMap file = small_weights();
  file["fc1.bias"] = at::arange(5);
  EXPECT_THAT(user_error([&] { match_weights(small_model(), file, {}, "x.pt"); }),
              HasSubstr("fc1.bias is Long [5], not floating [5]"));
  file["fc1.bias"] = at::randn({5}).to(at::kBFloat16);
  EXPECT_EQ(match_weights(small_model(), file, {}, "x.pt").tensors.at("fc1.bias").scalar_type(), at::kBFloat16);
}

TEST(MatchWeights, DerivedValuesOfPyTorchAreOptional) {
  TensorMap file{{"wte.weight", at::randn({10, 4})},
                 {"h.0.attn.bias", at::ones({1, 1, 8, 8})},
                 {"h.0.attn.masked_bias", at::scalar_tensor(-1e4)},
                 {"embeddings.position_ids", at::arange(8)},
                 {"model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({4})}};
  EXPECT_EQ(match_weights(tied_model(), file, {}, "x").derived.size(), 4u);
  file["h.1.attn.bias"] = at::ones({8});  // a real bias
  EXPECT_THAT(user_error([&] { match_weights(tied_model(), file, {}, "x"); }),
              HasSubstr("1 unexpected (h.1.attn.bias)"));
}

/// As in the files of the inner module of Hugging Face's models: "wte.weight" for "transformer.wte.weight".
TEST(MatchWeights, NamesMayLackTheFirstComponent) {
  ModelBuilder b("gpt");
  NodeId x = b.input("data", {6});
  const NodeId target = b.input("target", {6});
  x = b.layer<Embedding>({x}, "transformer.wte", 10, 4);
  x = b.layer<Linear>({x}, "transformer.h.0.fc", 4, 4);
  x = b.layer<Linear>({x}, "lm_head", 4, 10, LinearOptions{.bias = false, .weight_name = "transformer.wte.weight"});
  const Model model = b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
  const at::Tensor table = at::randn({10, 4}), weight = at::randn({4, 4}), bias = at::randn({4});
  TensorMap file{{"wte.weight", table},
                 {"h.0.fc.weight", weight},
                 {"h.0.fc.bias", bias},
                 {"h.0.attn.bias", at::ones({1, 1, 6, 6})}};
  const WeightsMatch match = match_weights(model, file, {}, "x");
  ASSERT_EQ(match.tensors.size(), 3u);
  EXPECT_TRUE(at::equal(match.tensors.at("transformer.wte.weight"), table));
  EXPECT_TRUE(at::equal(match.tensors.at("transformer.h.0.fc.weight"), weight));
  EXPECT_TRUE(at::equal(match.tensors.at("transformer.h.0.fc.bias"), bias));
  EXPECT_THAT(match.renamed,
              ElementsAre("h.0.fc.bias as transformer.h.0.fc.bias", "h.0.fc.weight as transformer.h.0.fc.weight",
                          "wte.weight as transformer.wte.weight"));
  EXPECT_THAT(match.derived, ElementsAre("h.0.attn.bias"));
  EXPECT_THAT(render(match, model, "x"), HasSubstr("3 read under another name (h.0.fc.bias as transformer."));
  file["lm_head.weight"] = table.clone();
  EXPECT_TRUE(match_weights(model, file, {}, "x").is_complete());
  file["h.1.fc.bias"] = bias;
  EXPECT_THAT(user_error([&] { match_weights(model, file, {}, "x"); }), HasSubstr("1 unexpected (h.1.fc.bias)"));
  file.erase("h.1.fc.bias");
  TensorMap prefixed;
  for (const auto& [name, tensor] : file) prefixed["module." + name] = tensor;
  EXPECT_TRUE(match_weights(model, prefixed, {.prefix = "module."}, "x").is_complete());
  TensorMap usual;
  for (const auto& [name, tensor] : match.tensors) usual[name] = tensor;
  EXPECT_TRUE(match_weights(model, usual, {}, "x").renamed.empty());
}

/// A file with the tensors of one layer only is not a model's without a component.
TEST(MatchWeights, FewNamesWithoutTheFirstComponentDoNotCount) {
  const TensorMap file{{"weight", at::randn({5, 4})}, {"bias", at::randn({5})}};
  EXPECT_THAT(user_error([&] { match_weights(small_model(), file, {.rule = kPartial}, "x"); }),
              HasSubstr("nothing fits model \"small\""));
}

TEST(MatchWeights, GammaAndBetaAreTheWeightAndBiasOfNorms) {
  TensorMap file = small_weights();
  const at::Tensor gamma = file.at("bn.weight"), beta = file.at("bn.bias");
  file.erase("bn.weight");
  file.erase("bn.bias");
  file["bn.gamma"] = gamma;
  file["bn.beta"] = beta;
  const WeightsMatch match = match_weights(small_model(), file, {}, "x");
  EXPECT_TRUE(at::equal(match.tensors.at("bn.weight"), gamma));
  EXPECT_TRUE(at::equal(match.tensors.at("bn.bias"), beta));
  EXPECT_THAT(match.renamed, ElementsAre("bn.beta as bn.bias", "bn.gamma as bn.weight"));
  file["bn.weight"] = gamma;
  EXPECT_THAT(match_weights(small_model(), file, {.rule = kPartial}, "x").unexpected, ElementsAre("bn.gamma"))
      << "the file has the weight itself";
  file.erase("bn.weight");
  file["other.gamma"] = gamma;
  EXPECT_THAT(user_error([&] { match_weights(small_model(), file, {}, "x"); }),
              HasSubstr("1 unexpected (other.gamma)"));
}

TEST(MatchWeights, TheReportStaysShort) {
  TensorMap file = small_weights();
  for (int i = 0; i < 1000; ++i) file["very.long.name." + std::string(200, 'x') + std::to_string(i)] = at::ones({1});
  const Model model = small_model();
  const std::string text = render(match_weights(model, file, {.rule = kPartial}, "x"), model, "x");
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("1000 in the file only ("));
  EXPECT_LT(text.size(), 1000u);
}

/// Hugging Face's Conv1D for queries, keys and values: the parts lie along the second dim.
TEST(MatchWeights, TakesTheShapeOfFiles) {
  ModelBuilder b("conv1d");
  const NodeId data = b.input("data", {6, 4}), target = b.input("target", {});
  const NodeId parts = b.layer<Linear>({data}, "c_attn", 4, 5, LinearOptions{.parts = 3, .transposed = true});
  const NodeId x = b.layer<Flatten>({parts}, "flatten");
  const Model model = b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
  const at::Tensor weight = at::randn({4, 15}), bias = at::randn({15});
  const WeightsMatch match = match_weights(model, {{"c_attn.weight", weight}, {"c_attn.bias", bias}}, {}, "x.pt");
  EXPECT_TRUE(at::equal(match.tensors.at("c_attn.weight"), weight.view({4, 3, 5})));
  EXPECT_TRUE(at::equal(match.tensors.at("c_attn.bias"), bias.view({3, 5})));
  const TensorMap in_file = in_file_shapes(model, match.tensors);
  EXPECT_TRUE(at::equal(in_file.at("c_attn.weight"), weight));
  EXPECT_TRUE(at::equal(in_file.at("c_attn.bias"), bias));
}

}  // namespace
}  // namespace trireme::test_support
