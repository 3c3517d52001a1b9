// Compares a language model with tied embeddings and dropout, under tensor and sequence parallelism, with one device.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "equivalence.h"

namespace trireme::test_support {
namespace {

using Splits = std::vector<std::pair<std::string, std::string>>;  // pairs: end of a layer's name, split

/// Every layer takes the split of the first entry that its name ends with.
Plan with_splits(const std::string& degrees, const Model& model, const Splits& splits) {
  Plan plan = plan_of(degrees, model);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const std::string& name = model.node(id).name;
    auto found =
        std::find_if(splits.begin(), splits.end(), [&](const auto& split) { return name.ends_with(split.first); });
    EXPECT_NE(found, splits.end()) << name;
    plan.layers[size_t(id)].split = found->second;
  }
  validate(plan, model, kBatch, "test");
  return plan;
}

/// Shoeybi et al., "Megatron-LM", 2019: activations are whole between the split regions.
Splits megatron() {
  return {{"wte", "vocabulary"},  {".q", "columns"},      {".k", "columns"},    {".v", "columns"},
          {".heads", "heads"},    {".c_proj", "rows"},    {".c_fc", "columns"}, {".gelu", "features"},
          {"lm_head", "columns"}, {"loss", "vocabulary"}, {"", "replicate"}};
}

/// Korthikanti et al., 2022: between these, norms, dropout and additions are split by sequence.
Splits megatron_with_sequence_parallelism() {
  Splits splits = megatron();
  splits.back().second = "sequence";
  return splits;
}

const std::vector<std::string>& tensor_degrees() {
  static const std::vector<std::string> all{"tensor=2", "tensor=4", "data=2,tensor=2", "tensor=2,micro_batches=3",
                                            "tensor=2,pipeline=2,micro_batches=3"};
  return all;
}

void expect_equivalent_at_all_degrees(const Splits& splits) {
  const Model model = small_model("transformer-lm");
  for (const std::string& degrees : tensor_degrees())
    for (const Recipe& recipe : {recipes()[0], recipes()[1]})
      expect_equivalent(model, with_splits(degrees, model, splits), recipe, {});
}

TEST(Transformer, MegatronsTensorParallelism) { expect_equivalent_at_all_degrees(megatron()); }

TEST(Transformer, SequenceParallelismBetween) {
  expect_equivalent_at_all_degrees(megatron_with_sequence_parallelism());
}

/// Full and selective recompute with their communication, and messages in slices between stages.
TEST(Transformer, MegatronsRecomputeAndMessages) {
  const Model model = small_model("transformer-lm");
  for (const Splits& splits : {megatron(), megatron_with_sequence_parallelism()})
    for (const char* degrees :
         {"tensor=4", "data=2,tensor=2", "tensor=2,pipeline=2,micro_batches=3,schedule=1f1b,scatter_messages=1",
          "tensor=2,pipeline=2,micro_batches=3,schedule=zero-bubble,scatter_messages=1",
          "tensor=2,pipeline=2,chunks=2,schedule=interleaved,micro_batches=4,scatter_messages=1",
          "data=2,tensor=2,micro_batches=2,sharding=zero3"})
      for (const char* recompute : {"all", "selective"})
        expect_equivalent(
            model,
            with_splits(fmt::format("{},recompute={},recompute_communication=1", degrees, recompute), model, splits),
            recipes()[1], {});
}

TEST(Transformer, EverythingBySequence) {
  // Tied weights must be split alike; here both layers hold the whole weight.
  expect_equivalent_at_all_degrees({{"", "sequence"}});
}

TEST(Transformer, NamedPlans) {
  const Model model = small_model("transformer-lm");
  for (const char* degrees : {"data=2", "data=3", "tensor=2", "tensor=4", "pipeline=2,micro_batches=3",
                              "data=2,tensor=2", "data=2,tensor=2,pipeline=2,micro_batches=2"})
    for (const Recipe& recipe : recipes()) expect_equivalent(model, plan_of(degrees, model), recipe, {});
}

TEST(Transformer, AnySplitOfAnyLayer) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Model model = small_model("transformer-lm");
  for (int draw = 0; draw < 16; ++draw) {
    Plan plan = plan_of(
        std::vector{"tensor=2", "tensor=4", "data=2,tensor=2", "tensor=2,pipeline=2,micro_batches=2"}[size_t(draw % 4)],
        model);
    plan.name = "drawn " + std::to_string(draw);
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      LayerPlan& layer = plan.layers[size_t(id)];
      const auto options = model.node(id).layer->sharding_options(model.input_shapes(id), layer.tensor);
      layer.split = options[std::uniform_int_distribution<size_t>(0, options.size() - 1)(random)].name;
    }
    // Both layers that use the tied weight must split it alike.
    const std::string& embedding = plan.layers[size_t(model.find("wte"))].split;
    plan.layers[size_t(model.find("lm_head"))].split = embedding == "vocabulary" ? "columns"
                                                       : embedding == "hidden"   ? "rows"
                                                                                 : embedding;
    validate(plan, model, kBatch, "test");
    std::string splits;
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
      splits += model.node(id).name + ":" + plan.layers[size_t(id)].split + " ";
    SCOPED_TRACE(splits);
    expect_equivalent(model, plan, recipes()[size_t(draw) % recipes().size()], {});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace trireme::test_support
