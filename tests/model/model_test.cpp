// Model, ModelBuilder and the layers' messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layer_cases.h"
#include "trireme/error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/model.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

template <class Body>
std::string user_error(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::user);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Model chain(int64_t hidden, const std::string& second_weight = "") {
  ModelBuilder b("chain");
  NodeId x = b.input("data", {6}), target = b.input("target", {});
  x = b.layer<Linear>({x}, "a", 6, hidden);
  x = b.layer<Relu>({x}, "r");
  x = b.layer<Linear>({x}, "b", hidden, hidden, LinearOptions{.weight_name = second_weight});
  x = b.layer<Linear>({x}, "c", hidden, 4);
  NodeId loss = b.layer<SoftmaxCrossEntropy>({x, target}, "loss");
  return b.finish(x, loss);
}

TEST(Model, KnowsItsGraph) {
  Model m = chain(5);
  EXPECT_EQ(m.input_count(), 2);
  EXPECT_EQ(m.find("b"), 4);
  EXPECT_EQ(m.find("unknown"), -1);
  EXPECT_EQ(m.consumers(m.find("a")), std::vector<NodeId>{m.find("r")});
  EXPECT_EQ(m.consumers(1), std::vector<NodeId>{m.loss()});
  EXPECT_EQ(m.input_shapes(m.loss()), (std::vector<Shape>{{4}, {}}));
  EXPECT_EQ(m.parameter_count(), 6 * 5 + 5 + 5 * 5 + 5 + 5 * 4 + 4);
}

TEST(Model, CountsTiedParametersOnce) {
  Model m = chain(6, "a.weight");
  EXPECT_EQ(m.parameter_count(), 6 * 6 + 6 + 6 + 6 * 4 + 4);
  EXPECT_EQ(m.parameters()[0].name, "a.weight");
  std::string message = user_error([] { chain(5, "a.weight"); });
  EXPECT_THAT(message, HasSubstr("a.weight"));
  EXPECT_THAT(message, HasSubstr("[5, 6]"));
}

TEST(Model, FingerprintFollowsTheStructure) {
  EXPECT_EQ(chain(5).fingerprint(), chain(5).fingerprint());
  EXPECT_EQ(chain(5).fingerprint().size(), 16u);
  EXPECT_NE(chain(5).fingerprint(), chain(6).fingerprint());
  EXPECT_NE(chain(6).fingerprint(), chain(6, "a.weight").fingerprint());
}

TEST(Model, MayHaveLayersThatTheLossDoesNotDependOn) {
  ModelBuilder b("m");
  const NodeId x = b.input("data", {6}), target = b.input("target", {});
  const NodeId unused = b.layer<Linear>({x}, "unused", 6, 6), used = b.layer<Linear>({x}, "used", 6, 6);
  const Model model = b.finish(used, b.layer<SoftmaxCrossEntropy>({used, target}, "loss"));
  EXPECT_TRUE(model.consumers(unused).empty());
  EXPECT_EQ(model.parameters().size(), 4u);
}

TEST(Model, RefusesWrongGraphs) {
  auto linear = [](std::string name) { return std::make_shared<const Linear>(name, 6, 6); };
  EXPECT_THAT(user_error([&] {
                ModelBuilder b("m");
                NodeId x = b.input("data", {6});
                x = b.add(linear("a"), {x});
                b.add(linear("a"), {x});
              }),
              HasSubstr("\"a\""));
  EXPECT_THAT(user_error([&] { ModelBuilder("m").add(linear("a"), {3}); }), HasSubstr("reads node 3"));
  EXPECT_THAT(user_error([&] {
                ModelBuilder b("m");
                b.add(linear("fc"), {b.input("data", {7})});
              }),
              ::testing::AllOf(HasSubstr("\"fc\""), HasSubstr("[7]"), HasSubstr("6 input features")));
  EXPECT_THAT(user_error([&] {
                ModelBuilder b("m");
                NodeId x = b.input("data", {3, 4, 4});
                b.layer<Conv2d>({x}, "conv", Conv2dOptions{.in = 3, .out = 4, .kernel = 5});
              }),
              ::testing::AllOf(HasSubstr("\"conv\""), HasSubstr("5x5")));
  EXPECT_THAT(user_error([&] { Dropout("drop", 1.0); }), HasSubstr("probability 1"));
}

TEST(SoftmaxCrossEntropy, NamesALabelOutOfRange) {
  SoftmaxCrossEntropy loss("loss");
  TestCall call;
  at::Tensor logits = at::zeros({2, 10}), labels = at::zeros({2}, at::kLong);
  labels[1] = 10;
  std::string message = user_error([&] { loss.forward(call, std::vector{logits, labels}); });
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("label 10"), HasSubstr("10 classes")));
}

TEST(SoftmaxCrossEntropy, LowestIndexWinsTiesAndLargeLogitsAreFinite) {
  SoftmaxCrossEntropy loss("loss");
  TestCall call;
  at::Tensor logits = at::full({2, 3}, 1e4), labels = at::zeros({2}, at::kLong);
  labels[1] = 1;
  at::Tensor losses = loss.forward(call, std::vector{logits, labels});
  EXPECT_EQ(call.metrics["correct"], 1);
  EXPECT_NEAR(losses[1].item<double>(), std::log(3.0), 1e-6);
}

TEST(Dropout, DropsItsShareAndChangesWithStepSeedAndLayer) {
  at::Tensor x = at::ones({50, 200}, at::kDouble);
  auto mask = [&](std::string name, uint64_t seed, int64_t step) {
    Dropout layer(name, 0.3);
    TestCall call;
    call.seed = seed;
    call.step = step;
    return layer.forward(call, std::vector{x});
  };
  at::Tensor y = mask("d", 1, 1);
  EXPECT_NEAR((y == 0).to(at::kDouble).mean().item<double>(), 0.3, 0.015);  // 3 standard deviations of 10^4 draws
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.7, 1e-12);
  EXPECT_TRUE(at::equal(y, mask("d", 1, 1)));
  EXPECT_FALSE(at::equal(y, mask("d", 1, 2)));
  EXPECT_FALSE(at::equal(y, mask("d", 2, 1)));
  EXPECT_FALSE(at::equal(y, mask("e", 1, 1)));
  Dropout layer("d", 0.3);
  TestCall call;
  call.training = false;
  EXPECT_TRUE(at::equal(layer.forward(call, std::vector{x}), x));
}

TEST(BlockOf, IsTheRepeatedPieceOfANetwork) {
  const std::pair<const char*, const char*> expected[] = {
      {"conv1", ""},                          // no block: the top
      {"layer1.0.downsample.0", "layer1.0"},  // ResNet
      {"h.0.attn.q", "h.0"},                  // GPT-2
      {"bert.encoder.layer.11.attention.self.query", "bert.encoder.layer.11"},
      {"features.28", "features.28"},               // VGG
      {"features.3.conv.0.0", "features.3"},        // MobileNet
      {"inception3a.branch1.conv", "inception3a"},  // GoogLeNet
      {"inception3a.branch2.0.conv", "inception3a"},
      {"Mixed_5b.branch3x3dbl_1.conv", "Mixed_5b"},  // Inception-V3
      {"down.0.conv1", "down.0"},                    // U-Net
      {"features.conv0", "features"},                // this and the next: DenseNet
      {"features.denseblock1.denselayer12.conv1", "features.denseblock1.denselayer12"},
      {"features.transition2.norm", "features.transition2"},
      {"encoder.layers.encoder_layer_0.ln_1", "encoder.layers.encoder_layer_0"},  // ViT
      {"encoder.layers.encoder_layer_11.mlp.0", "encoder.layers.encoder_layer_11"},
      {"encoder.ln", "encoder"},
      {"trunk.stage2.norm.scale", "trunk.stage2"},
      {"net.layer1", "net"},  // a single layer is not a repeated piece
      {"net.player.conv", "net"},
      {"net.7up.conv", "net"},
  };
  for (const auto& [layer, block] : expected) EXPECT_EQ(block_of(layer), block) << layer;
}

}  // namespace
}  // namespace trireme::test_support
