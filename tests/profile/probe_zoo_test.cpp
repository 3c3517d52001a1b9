// Runs every kind of layer of the zoo alone under every option that it offers.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "profile/measure_layers.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kSamples = 2;
constexpr Repetitions kOnce{.passes = 1, .most = 1, .seconds_per_layer = 0, .split = 1, .crowded = false};

/// Small versions of the zoo's models; together they contain all its kinds of layers.
std::vector<ModelSpec> small_zoo() {
  using enum LearningTask;
  const Shape image{3, 32, 32}, words{8};
  std::vector<ModelSpec> specs;
  for (const char* name :
       {"mlp", "skip", "dropout-mlp", "inception", "resnet50", "cifar-resnet18", "vgg11", "vgg11-bn", "densenet121"})
    specs.push_back({.name = name, .sample_shape = image, .classes = 8});
  for (ModelSpec& spec : specs)
    for (const char* option : {"width", "hidden", "growth"})
      if (model_options(spec.name).count(option)) spec.options[option] = 8;
  specs.push_back({.name = "mnist-convnet", .sample_shape = {1, 28, 28}, .classes = 8});
  specs.push_back({.name = "mlp",
                   .sample_shape = {8},
                   .classes = 4,
                   .options = {{"hidden", 8}},
                   .task = regression,
                   .target_shape = {4}});
  specs.push_back(
      {.name = "cifar-resnet18", .sample_shape = image, .classes = 8, .options = {{"width", 8}, {"batch_norm", 0}}});
  specs.push_back(
      {.name = "vit-tiny",
       .sample_shape = image,
       .classes = 8,
       .options = {{"layers", 1}, {"width", 16}, {"heads", 4}, {"hidden", 32}, {"patch", 8}, {"probability", 0.1}}});
  specs.push_back({.name = "transformer-classifier",
                   .sample_shape = image,
                   .classes = 8,
                   .options = {{"layers", 1}, {"width", 16}}});
  for (const char* name : {"unet", "segnet"})
    specs.push_back({.name = name,
                     .sample_shape = image,
                     .classes = 8,
                     .options = {{"width", 8}},
                     .task = segmentation,
                     .target_shape = {32, 32}});
  const std::map<std::string, double> transformer{{"layers", 1}, {"width", 16}, {"heads", 4}, {"positions", 8}};
  specs.push_back({.name = "bert", .sample_shape = words, .classes = 8, .options = transformer, .vocabulary = 16});
  specs.push_back({.name = "gpt2",
                   .sample_shape = words,
                   .classes = 16,
                   .options = transformer,
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "llama",
                   .sample_shape = words,
                   .classes = 16,
                   .options = {{"layers", 1}, {"width", 16}, {"heads", 4}, {"key_heads", 2}, {"hidden", 24}},
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "lstm-lm",
                   .sample_shape = words,
                   .classes = 16,
                   .options = {{"width", 16}},
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "big-lstm",
                   .sample_shape = words,
                   .classes = 16,
                   .options = {{"hidden", 16}, {"projection", 8}, {"samples", 4}},
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "gnmt",
                   .sample_shape = {16},
                   .classes = 16,
                   .options = {{"layers", 3}, {"width", 16}},
                   .task = translation,
                   .target_shape = {8},
                   .vocabulary = 16});
  return specs;
}

void measure_all(const ModelSpec& spec, const SiteOptions& options, std::set<std::string>& seen,
                 std::set<std::string>& kinds) {
  SCOPED_TRACE(spec.name);
  const Model model = make_model(spec);
  const LayerSites sites(model, options);
  std::vector<LayerRequest> requests = requests_for(sites, {1, 2, 4}, kSamples);
  std::erase_if(requests,
                [&](const LayerRequest& r) { return !seen.insert(sites.key(r.node, r.option, r.tensor)).second; });
  const auto measured = measure_layers(sites, requests, kOnce);
  ASSERT_EQ(measured.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const LayerSite& site = sites.site(requests[i].node);
    const LayerMeasurement& m = measured[i];
    SCOPED_TRACE(sites.key(requests[i].node, requests[i].option, requests[i].tensor));
    kinds.insert(std::string(site.layer->kind()));
    EXPECT_TRUE(std::isfinite(m.forward.median) && m.forward.median > 0);
    EXPECT_TRUE(std::isfinite(m.backward.median));
    EXPECT_EQ(m.backward.median > 0, site.differentiated);
    EXPECT_EQ(m.backward_weight > 0, site.differentiated && site.layer->splits_backward());
    EXPECT_EQ(m.memory.keeps_input.size(), site.inputs.size());
    ASSERT_EQ(m.memory.input_gradients.size(), site.inputs.size());
    EXPECT_TRUE(m.memory.output > 0 || m.memory.output_shares_input >= 0);
    for (size_t in = 0; in < site.inputs.size(); ++in)
      if (!site.wants_inputs[in]) {
        EXPECT_EQ(m.memory.input_gradients[in], 0) << "input " << in;
      }
  }
}

TEST(ProbeZoo, EveryKindOfLayerRunsByItselfUnderEveryOption) {
  std::set<std::string> seen, kinds;
  for (const ModelSpec& spec : small_zoo()) measure_all(spec, {}, seen, kinds);
  // The zoo's largest models have no other kinds of layers.
  for (const char* name : {"inception-v3", "resnext50"}) {
    const Model model = make_model({.name = name, .sample_shape = {3, 299, 299}, .classes = 8});
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      const std::string kind(model.node(id).layer->kind());
      EXPECT_TRUE(kinds.count(kind) || kind == "weighted_sum") << kind;
    }
  }
  EXPECT_GE(kinds.size(), 25u);
}

TEST(ProbeZoo, RunsInBfloat16AndWithGlobalNorms) {
  std::set<std::string> seen, kinds;
  for (const ModelSpec& spec : small_zoo())
    if (spec.name == "inception" || spec.name == "gnmt" || spec.name == "vit-tiny")
      measure_all(spec, {.precision = Precision::bf16, .batch_norm = BatchNormScope::global}, seen, kinds);
}

/// At the speed of a core that needs 1000 s for the piece of work that every core does in far less than one.
TEST(ProbeZoo, SecondsAreThoseAtTheAskedSpeedOfTheCores) {
  const Model model = make_model({.name = "mlp", .sample_shape = {16}, .classes = 8, .options = {{"hidden", 32}}});
  const LayerSites sites(model, {});
  const std::vector<LayerRequest> requests = requests_for(sites, {1}, 4);
  const std::vector<LayerMeasurement> plain = measure_layers(sites, requests, kOnce),
                                      slow = measure_layers(sites, requests, kOnce, 1, 1000);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_GT(slow[i].forward.median, 1e3 * plain[i].forward.median);
    EXPECT_LE(slow[i].forward.median, slow[i].forward.p90);
    EXPECT_GE(slow[i].crowding, 1);
  }
}

TEST(ProbeZoo, CrowdedIsNeverFasterThanAlone) {
  const Model model = make_model({.name = "mlp", .sample_shape = {16}, .classes = 8, .options = {{"hidden", 32}}});
  const LayerSites sites(model, {});
  for (const LayerMeasurement& m : measure_layers(sites, requests_for(sites, {1, 2}, 4))) {
    EXPECT_GE(m.crowding, 1);
    EXPECT_GE(m.runs, 3);
    EXPECT_LE(m.forward.p10, m.forward.median);
    EXPECT_LE(m.forward.median, m.forward.p90);
  }
}

}  // namespace
}  // namespace trireme
