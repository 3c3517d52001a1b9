// The named models: sizes, messages, and that each model learns.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "base/random.h"
#include "run_model.h"
#include "trireme/error.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

at::Tensor draw(const ParameterSpec& spec, uint64_t seed, at::ScalarType type) {
  at::Tensor t = at::empty(spec.shape, at::kDouble);
  Philox random(random_key(seed, spec.name));
  for (int64_t i = 0; i < t.numel(); ++i) {
    double& x = t.data_ptr<double>()[i];
    switch (spec.init.kind) {
      case Init::Kind::constant: x = spec.init.a; break;
      case Init::Kind::uniform: x = spec.init.a + (spec.init.b - spec.init.a) * random.uniform(uint64_t(i)); break;
      case Init::Kind::normal: x = spec.init.a + spec.init.b * random.normal(uint64_t(i)); break;
    }
  }
  return channels_last(t.to(type));
}

std::map<std::string, at::Tensor> initial_state(const Model& model, uint64_t seed, at::ScalarType type) {
  std::map<std::string, at::Tensor> state;
  for (const ParameterSpec& spec : model.parameters()) state[spec.name] = draw(spec, seed, type);
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const BufferSpec& spec : node.layer->buffers()) state[spec.name] = at::full(spec.shape, spec.initial, type);
  return state;
}

TEST(Zoo, ResNet18HasTorchvisionsParameters) {
  Model m = make_model({.name = "resnet18", .sample_shape = {3, 32, 32}, .classes = 1000, .options = {}});
  EXPECT_EQ(m.parameter_count(), 11689512);
  EXPECT_EQ(m.parameters().front().name, "conv1.weight");
  EXPECT_EQ(m.parameters().back().name, "fc.bias");
  EXPECT_EQ(m.node(m.output()).sample_shape, Shape{1000});
}

TEST(Zoo, CifarResNet18HasTheKnownSize) {
  Model m = make_model({.name = "cifar-resnet18", .sample_shape = {3, 32, 32}, .classes = 10, .options = {}});
  EXPECT_EQ(m.parameter_count(), 11173962);
  double flops = 0;
  for (NodeId id = 0; id < NodeId(m.nodes().size()); ++id)
    if (m.node(id).layer && m.node(id).layer->kind() == "conv2d")
      flops += m.node(id).layer->forward_flops(m.input_shapes(id));
  EXPECT_NEAR(flops, 1.11e9, 0.02e9);  // 0.56 G multiply-adds
}

TEST(Zoo, ResNetsWithoutBatchNormKeepTheirConvolutions) {
  for (const char* name : {"cifar-resnet18", "resnet18"}) {
    Model with = make_model({.name = name, .sample_shape = {3, 32, 32}, .classes = 10, .options = {}});
    Model without =
        make_model({.name = name, .sample_shape = {3, 32, 32}, .classes = 10, .options = {{"batch_norm", 0}}});
    auto count = [](const Model& model, std::string_view kind) {
      return std::count_if(model.nodes().begin(), model.nodes().end(),
                           [&](const Node& n) { return n.layer && n.layer->kind() == kind; });
    };
    EXPECT_EQ(count(with, "batch_norm"), 20);
    EXPECT_EQ(count(without, "batch_norm"), 0);
    EXPECT_EQ(count(without, "conv2d"), count(with, "conv2d"));
    EXPECT_EQ(count(without, "add_relu"), 8);
    EXPECT_EQ(count(without, "relu"), 9);
    for (const ParameterSpec& spec : without.parameters())
      EXPECT_TRUE(spec.name == "fc.bias" || spec.name.ends_with(".weight")) << spec.name;
    EXPECT_NE(with.fingerprint(), without.fingerprint());
  }
}

TEST(Zoo, MnistConvnetNamesItsLayers) {
  Model m = make_model({.name = "mnist-convnet", .sample_shape = {1, 28, 28}, .classes = 10, .options = {}});
  for (const char* name : {"conv1", "conv2", "fc1", "fc2"}) EXPECT_GE(m.find(name), 0) << name;
  EXPECT_EQ(m.node(m.find("flatten")).sample_shape, Shape{512});
}

TEST(Zoo, InceptionHasGoogLeNetsBlocks) {
  Model m = make_model({.name = "inception", .sample_shape = {3, 32, 32}, .classes = 10, .options = {}});
  EXPECT_EQ(m.node(m.find("inception3a.concat")).sample_shape, (Shape{64 + 128 + 32 + 32, 16, 16}));
  EXPECT_EQ(m.node(m.find("inception3b.concat")).sample_shape, (Shape{128 + 192 + 96 + 64, 8, 8}));
  EXPECT_EQ(m.node(m.find("inception3a.concat")).inputs.size(), 4u);
  EXPECT_EQ(m.consumers(m.find("maxpool1")).size(), 4u);
  EXPECT_EQ(m.parameters().front().name, "conv1.conv.weight");
  for (const char* name : {"inception3a.branch1.conv", "inception3a.branch2.0.bn", "inception3b.branch3.1.conv",
                           "inception3b.branch4.0", "inception3b.branch4.1.conv"})
    EXPECT_GE(m.find(name), 0) << name;
  // in x out x kernel^2 for the stem, 3a (on 64 channels) and 3b (on 256), by table 1 of the paper.
  const int64_t stem = 3 * 64 * 9;
  const int64_t block_a = 64 * 64 + 64 * 96 + 96 * 128 * 9 + 64 * 16 + 16 * 32 * 25 + 64 * 32;
  const int64_t block_b = 256 * 128 + 256 * 128 + 128 * 192 * 9 + 256 * 32 + 32 * 96 * 25 + 256 * 64;
  const int64_t maps = 64 + (64 + 96 + 128 + 16 + 32 + 32) + (128 + 128 + 192 + 32 + 96 + 64), fc = 480 * 10 + 10;
  EXPECT_EQ(m.parameter_count(), stem + block_a + block_b + 2 * maps + fc);
  EXPECT_EQ(m.parameter_count(), 533482);
  Model grey =
      make_model({.name = "inception", .sample_shape = {1, 28, 28}, .classes = 10, .options = {{"batch_norm", 0}}});
  EXPECT_EQ(grey.parameter_count(), stem / 3 + block_a + block_b + maps + fc) << "a bias for every map";
  EXPECT_EQ(grey.node(grey.find("inception3b.concat")).sample_shape, (Shape{480, 7, 7}));
}

TEST(Zoo, LstmLanguageModelHasPyTorchsParameters) {
  Model m = make_model({.name = "lstm-lm", .sample_shape = {35}, .classes = 10000, .options = {}});
  std::vector<std::string> names;
  for (const ParameterSpec& spec : m.parameters()) names.push_back(spec.name);
  EXPECT_THAT(names, ::testing::ElementsAre("encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0",
                                            "rnn.bias_hh_l0", "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1",
                                            "rnn.bias_hh_l1", "decoder.weight", "decoder.bias"));
  EXPECT_EQ(m.parameter_count(), 10000 * 200 + 2 * (2 * 800 * 200 + 2 * 800) + 10000 * 200 + 10000);
  EXPECT_EQ(m.node(m.output()).sample_shape, (Shape{35, 10000}));
  auto states = [](const Model& model) {
    size_t count = 0;
    for (const Node& node : model.nodes())
      if (node.layer) count += node.layer->states().size();
    return count;
  };
  EXPECT_EQ(states(m), 4u);
  Model forgetful = make_model({.name = "lstm-lm",
                                .sample_shape = {35},
                                .classes = 100,
                                .options = {{"stateful", 0}, {"layers", 3}, {"probability", 0.2}}});
  EXPECT_EQ(states(forgetful), 0u);
  EXPECT_GE(forgetful.find("rnn.2"), 0);
  EXPECT_GE(forgetful.find("drop.2"), 0);
  EXPECT_TRUE(reads_tokens("lstm-lm"));
  EXPECT_FALSE(reads_tokens("inception"));
}

TEST(Zoo, TransformerLanguageModelIsGpt2) {
  const std::map<std::string, double> small{{"layers", 12}, {"width", 768}, {"heads", 12}};
  Model m = make_model({.name = "transformer-lm", .sample_shape = {1024}, .classes = 50257, .options = small});
  const int64_t published = 124439808,
                key_biases = 12 * 768;  // GPT-2 small; the model has no key biases, which change nothing
  EXPECT_EQ(m.parameter_count(), published - key_biases);
  EXPECT_EQ(m.parameters().front().name, "wte.weight");
  EXPECT_EQ(m.parameters().back().name, "ln_f.bias");
  EXPECT_EQ(m.node(m.output()).sample_shape, (Shape{1024, 50257}));
  for (const char* name :
       {"wpe", "h.0.ln_1", "h.0.attn.q", "h.0.attn.heads", "h.0.attn.c_proj", "h.0.add_1", "h.11.ln_2", "h.11.mlp.c_fc",
        "h.11.mlp.gelu", "h.11.mlp.c_proj", "h.11.add_2", "ln_f", "lm_head"})
    EXPECT_GE(m.find(name), 0) << name;
  EXPECT_EQ(m.find("drop"), -1);
  EXPECT_TRUE(reads_tokens("transformer-lm"));
  auto with = [&](std::string key, double value) {
    std::map<std::string, double> options = small;
    options[key] = value;
    return make_model({.name = "transformer-lm", .sample_shape = {1024}, .classes = 50257, .options = options});
  };
  EXPECT_EQ(with("tied", 0).parameter_count(), m.parameter_count() + 50257 * 768);
  EXPECT_GE(with("probability", 0.1).find("h.3.mlp.drop"), 0);
}

TEST(Zoo, TransformerClassifierReadsImagesOrSequences) {
  Model image =
      make_model({.name = "transformer-classifier", .sample_shape = {3, 32, 24}, .classes = 10, .options = {}});
  EXPECT_EQ(image.node(image.find("tokens")).sample_shape, (Shape{8 * 6, 64}));
  EXPECT_EQ(image.node(image.output()).sample_shape, Shape{10});
  Model sequence =
      make_model({.name = "transformer-classifier", .sample_shape = {20, 7}, .classes = 10, .options = {}});
  EXPECT_EQ(sequence.node(sequence.find("ln_f")).sample_shape, (Shape{20, 64}));
}

TEST(Zoo, SizesAreWholeNumbersWithinReason) {
  const auto message = [](const ModelSpec& spec) {
    try {
      make_model(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::user);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (double hidden : {0.0, 2.5, 1e300, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THAT(message({.name = "mlp", .sample_shape = {4}, .classes = 2, .options = {{"hidden", hidden}}}),
                ::testing::HasSubstr("it must be a whole number from 1 to 16777216"))
        << hidden;
  EXPECT_THAT(message({.name = "mlp", .sample_shape = {4}, .classes = 2, .options = {{"depth", 4294967297.0}}}),
              ::testing::HasSubstr("from 1 to 10000"));
  for (double probability : {-1.0, 1.0, std::nan("")})
    EXPECT_THAT(
        message({.name = "lstm-lm", .sample_shape = {8}, .classes = 9, .options = {{"probability", probability}}}),
        ::testing::HasSubstr("at least 0 and below 1"))
        << probability;
  ModelSpec deep{.name = "unet",
                 .sample_shape = {3, 32, 32},
                 .classes = 2,
                 .options = {{"depth", 64}},
                 .task = LearningTask::segmentation,
                 .target_shape = {32, 32}};
  EXPECT_THAT(message(deep), ::testing::HasSubstr("they are halved 64 times"));
}

TEST(Zoo, RotationsTakeAnyNumberAboveZero) {
  const auto llama = [](double base, double factor) {
    return make_model({.name = "llama",
                       .sample_shape = {8},
                       .classes = 10,
                       .options = {{"layers", 1},
                                   {"width", 16},
                                   {"heads", 4},
                                   {"key_heads", 2},
                                   {"hidden", 24},
                                   {"rope_base", base},
                                   {"rope_factor", factor}},
                       .task = LearningTask::language,
                       .target_shape = {8}});
  };
  const Model model = llama(500000.5, 0.5);
  int rotations = 0;
  for (const Node& node : model.nodes()) {
    if (!node.layer || node.layer->kind() != "rotary_embedding") continue;
    ++rotations;
    EXPECT_EQ(std::get<double>(node.layer->attributes().at("base")), 500000.5);
    EXPECT_EQ(std::get<double>(node.layer->attributes().at("factor")), 0.5);
  }
  EXPECT_EQ(rotations, 2);
  for (const double refused : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    expect_error(Blame::user, {"rope_factor", "a number above 0"}, [&] { llama(10000, refused); });
    expect_error(Blame::user, {"rope_base", "a number above 0"}, [&] { llama(refused, 1); });
  }
}

/// Padded to a multiple of 128, as Megatron-LM does: 50,304 tokens for the 50,257 of GPT-2's tokenizer.
TEST(Zoo, AVocabularyMayBeLargerThanTheDatas) {
  const auto spec = [](const char* name, double vocabulary) {
    return ModelSpec{.name = name,
                     .sample_shape = {16},
                     .classes = 50257,
                     .options = {{"vocabulary", vocabulary}, {"layers", 1}},
                     .task = LearningTask::language,
                     .target_shape = {16},
                     .vocabulary = 50257};
  };
  for (const char* name : {"gpt2", "llama", "transformer-lm", "lstm-lm", "big-lstm"}) {
    const Model model = make_model(spec(name, 50304)), plain = make_model(spec(name, 0));
    EXPECT_GT(model.parameter_count(), plain.parameter_count()) << name;
    for (const ParameterSpec& p : model.parameters()) {
      const bool whole = std::none_of(p.shape.begin(), p.shape.end(), [](int64_t size) { return size == 50257; });
      EXPECT_TRUE(whole) << name << " " << p.name;
    }
  }
  const Model gpt2 = make_model(spec("gpt2", 50304)), plain = make_model(spec("gpt2", 0));
  EXPECT_EQ(gpt2.parameter_count() - plain.parameter_count(), (50304 - 50257) * 768);
  EXPECT_EQ(gpt2.node(gpt2.output()).sample_shape, (Shape{16, 50304}));
  try {
    make_model(spec("gpt2", 50000));
    FAIL() << "tokens would lie outside the embedding";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(HasSubstr("\"vocabulary\" = 50000"), HasSubstr("50257 different tokens")));
  }
  const Model bert = make_model({.name = "bert",
                                 .sample_shape = {16},
                                 .classes = 2,
                                 .options = {{"vocabulary", 30522}, {"layers", 1}},
                                 .target_shape = {},
                                 .vocabulary = 14835});
  EXPECT_EQ(bert.parameters().front().shape, (Shape{30522, 768}));
  EXPECT_EQ(bert.node(bert.output()).sample_shape, Shape{2}) << "classes are not tokens";
}

TEST(Zoo, UnetTakesImagesOfAnySize) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{120, 160}, {16, 31}, {17, 16}}) {
    const Model model = make_model({.name = "unet",
                                    .sample_shape = {3, height, width},
                                    .classes = 5,
                                    .options = {{"width", 2}},
                                    .task = LearningTask::segmentation,
                                    .target_shape = {height, width}});
    const auto head =
        std::find_if(model.nodes().begin(), model.nodes().end(), [](const Node& node) { return node.name == "head"; });
    ASSERT_NE(head, model.nodes().end());
    EXPECT_EQ(head->sample_shape, (Shape{5, height, width}));
  }
}

TEST(Zoo, NamesUnknownValues) {
  auto message = [](ModelSpec spec) {
    try {
      make_model(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::user);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message({"lenet", {1, 28, 28}, 10, {}}),
              ::testing::AllOf(HasSubstr("\"lenet\""), HasSubstr("mnist-convnet")));
  EXPECT_THAT(message({"mlp", {4}, 3, {{"heigth", 2}}}),
              ::testing::AllOf(HasSubstr("\"heigth\""), HasSubstr("hidden")));
  EXPECT_THAT(message({"mlp", {4}, 3, {{"depth", 1.5}}}), HasSubstr("1.5"));
  EXPECT_THAT(message({"mlp", {4}, 0, {}}), HasSubstr("0 classes"));
  EXPECT_THAT(message({"mnist-convnet", {1, 6, 6}, 10, {}}), HasSubstr("conv2"));
  EXPECT_THAT(message({"resnet18", {10}, 10, {}}), HasSubstr("it reads images"));
  EXPECT_THAT(message({"resnext50", {3, 64, 64}, 10, {{"width", 8}}}), HasSubstr("multiple of 16"));
  EXPECT_THAT(message({"unet", {3, 15, 32}, 10, {}}),
              ::testing::AllOf(HasSubstr("15x32"), HasSubstr("at least 16"), HasSubstr("depth")));
  EXPECT_THAT(message({"vit-tiny", {3, 30, 32}, 10, {}}), HasSubstr("16x16"));
  EXPECT_THAT(message({"gpt2", {3, 8, 8}, 10, {}}), HasSubstr("token ids"));
  EXPECT_THAT(message({"llama", {8}, 10, {{"heads", 5}}}), HasSubstr("width 576 with 5 heads"));
  EXPECT_THAT(message({"llama", {8}, 10, {{"key_heads", 2}}}), HasSubstr("2 heads of keys for 9 of queries"));
  EXPECT_THAT(message({"gnmt", {10}, 10, {}}), HasSubstr("it is a model for translation"));
  EXPECT_THAT(message({"big-lstm", {8}, 10, {{"samples", 10}}}), HasSubstr("the vocabulary has 10 words"));
  EXPECT_THAT(message({"inception", {3, 32, 32}, 10, {{"width", 6}}}), HasSubstr("multiple of 4"));
  EXPECT_THAT(message({"lstm-lm", {1, 28, 28}, 10, {}}), HasSubstr("generated-text"));
  EXPECT_THAT(message({"lstm-lm", {35}, 10, {{"stateful", 2}}}), HasSubstr("on or off"));
  EXPECT_THAT(message({"transformer-lm", {1, 28, 28}, 10, {}}), HasSubstr("generated-text"));
  EXPECT_THAT(message({"transformer-lm", {8}, 10, {{"heads", 5}}}), HasSubstr("128 features for 5 heads"));
  EXPECT_THAT(message({"transformer-lm", {8}, 10, {{"tied", 3}}}), HasSubstr("on or off"));
  EXPECT_THAT(message({"transformer-classifier", {3, 30, 32}, 10, {}}), HasSubstr("4x4"));
  EXPECT_THAT(message({"transformer-classifier", {3}, 10, {}}), HasSubstr("[positions, features]"));
}

class Learns : public ::testing::TestWithParam<ModelSpec> {};

constexpr int64_t kBatch = 12, kLearnedClasses = 4;

/// A small model of each family. Without deep models and VGG, which begins with tiny weights and learns slowly; the
/// comparisons with torchvision cover these.
std::vector<ModelSpec> small_specs() {
  using enum LearningTask;
  const Shape image{1, 16, 16}, words{8};
  std::vector<ModelSpec> specs;
  for (const char* name :
       {"mlp", "mnist-convnet", "skip", "dropout-mlp", "tied-mlp", "inception", "cifar-resnet18", "resnet18"})
    specs.push_back({.name = name, .sample_shape = image});
  for (const char* name : {"inception", "cifar-resnet18", "resnet18"})
    std::find_if(specs.begin(), specs.end(), [&](const ModelSpec& s) { return s.name == name; })->options["width"] = 8;
  specs.push_back({.name = "vit-tiny",
                   .sample_shape = image,
                   .options = {{"layers", 2}, {"width", 16}, {"heads", 4}, {"hidden", 32}, {"patch", 8}}});
  specs.push_back({.name = "transformer-classifier", .sample_shape = image, .options = {{"width", 16}}});
  specs.push_back({.name = "unet",
                   .sample_shape = image,
                   .options = {{"width", 8}, {"depth", 2}},
                   .task = segmentation,
                   .target_shape = {16, 16}});
  specs.push_back({.name = "segnet",
                   .sample_shape = {1, 32, 32},
                   .options = {{"width", 8}},
                   .task = segmentation,
                   .target_shape = {32, 32}});
  const std::map<std::string, double> transformer{
      {"layers", 2}, {"width", 16}, {"heads", 4}, {"positions", 8}, {"probability", 0}};
  specs.push_back({.name = "bert", .sample_shape = words, .options = transformer, .vocabulary = kLearnedClasses});
  specs.push_back(
      {.name = "gpt2", .sample_shape = words, .options = transformer, .task = language, .target_shape = words});
  specs.push_back({.name = "llama",
                   .sample_shape = words,
                   .options = {{"layers", 2}, {"width", 16}, {"heads", 4}, {"key_heads", 2}, {"hidden", 24}},
                   .task = language,
                   .target_shape = words});
  specs.push_back(
      {.name = "lstm-lm", .sample_shape = words, .options = {{"width", 16}}, .task = language, .target_shape = words});
  specs.push_back({.name = "transformer-lm",
                   .sample_shape = words,
                   .options = {{"width", 16}},
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "big-lstm",
                   .sample_shape = words,
                   .options = {{"hidden", 16}, {"projection", 8}, {"samples", 3}, {"probability", 0}},
                   .task = language,
                   .target_shape = words});
  specs.push_back({.name = "gnmt",
                   .sample_shape = {8},
                   .options = {{"layers", 3}, {"width", 16}, {"probability", 0}},
                   .task = translation,
                   .target_shape = {4},
                   .vocabulary = kLearnedClasses});
  for (ModelSpec& spec : specs) spec.classes = kLearnedClasses;
  return specs;
}

at::Tensor random_values(Shape shape, uint64_t seed) {
  shape.insert(shape.begin(), kBatch);
  at::Tensor values = at::empty(shape);
  Philox random(seed);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] = float(random.normal(uint64_t(i)));
  return values;
}

/// Random images with classes in turn, or with the image's signs as masks; random tokens, which the model must repeat.
std::pair<at::Tensor, at::Tensor> random_batch(const ModelSpec& spec) {
  const auto as_tokens = [](const at::Tensor& values) {
    return values.mul(1000).to(at::kLong).remainder(kLearnedClasses);
  };
  at::Tensor data = random_values(spec.sample_shape, 9);
  if (spec.task == LearningTask::segmentation) return {data, data.select(1, 0).gt(0).to(at::kLong)};
  if (reads_tokens(spec.name)) data = as_tokens(data);
  if (spec.task == LearningTask::translation)
    return {data, data.narrow(1, spec.sample_shape[0] - spec.target_shape[0], spec.target_shape[0])};
  if (!spec.target_shape.empty()) return {data, data};
  return {data, at::arange(kBatch, at::kLong).remainder(kLearnedClasses)};
}

/// Plain gradient descent on one fixed batch must reduce its loss.
TEST_P(Learns, OneBatch) {
  const ModelSpec& spec = GetParam();
  const bool tokens = reads_tokens(spec.name);
  Model model = make_model(spec);
  auto state = initial_state(model, 1, at::kFloat);
  auto [data, target] = random_batch(spec);
  PlainRun run(model, state);
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    last = run.forward(data, target).mean().item<double>();
    if (step == 0) first = last;
    // Language models use signs of gradients, because through an embedding and an LSTM gradients are tiny at first.
    for (auto& [name, gradient] : run.backward())
      state[name].sub_(tokens ? gradient.sign() : gradient, tokens ? 0.01 : 0.1);
  }
  EXPECT_NEAR(first, std::log(4.0), 1.0);
  EXPECT_LT(last, first * 0.5);
}

INSTANTIATE_TEST_SUITE_P(Models, Learns, ::testing::ValuesIn(small_specs()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace trireme::test_support
