#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <algorithm>
#include <set>

#include "profile/measure_layers.h"
#include "profile/silent_communicator.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

/// Layers "b" and "c" are equal; "a" has the same size but reads the data.
Model three_linear() {
  ModelBuilder b("three");
  NodeId data = b.input("data", {8}), target = b.input("target", {});
  NodeId x = b.layer<Linear>({data}, "a", 8, 8);
  x = b.layer<Linear>({x}, "b", 8, 8);
  x = b.layer<Relu>({x}, "relu");
  x = b.layer<Linear>({x}, "c", 8, 8);
  NodeId loss = b.layer<SoftmaxCrossEntropy>({x, target}, "loss");
  return b.finish(x, loss);
}

ShardingOption option_of(const LayerSites& sites, NodeId node, int tensor, const std::string& name) {
  for (ShardingOption& o : sites.site(node).layer->sharding_options(sites.site(node).input_shapes, tensor))
    if (o.name == name) return o;
  throw std::logic_error("no option " + name);
}

TEST(LayerSites, EqualLayersHaveEqualKeys) {
  const Model model = three_linear();
  const LayerSites sites(model, {});
  auto key = [&](const char* layer, int tensor, const char* option) {
    const NodeId node = model.find(layer);
    return sites.key(node, option_of(sites, node, tensor, option), tensor);
  };
  EXPECT_EQ(key("b", 1, "replicate"), key("c", 1, "replicate"));
  EXPECT_NE(key("a", 1, "replicate"), key("b", 1, "replicate")) << "the first layer gives no gradient of the data";
  EXPECT_EQ(key("b", 2, "columns"), key("c", 2, "columns"));
  const std::set<std::string> different{key("b", 1, "replicate"), key("b", 2, "columns"), key("b", 4, "columns"),
                                        key("b", 2, "rows")};
  EXPECT_EQ(different.size(), 4u);
  EXPECT_EQ(key("b", 1, "replicate"), key("b", 2, "replicate")) << "every worker computes everything";
  const LayerSites narrow(model, {.precision = Precision::bf16});
  EXPECT_NE(narrow.key(model.find("b"), option_of(narrow, model.find("b"), 1, "replicate"), 1),
            key("b", 1, "replicate"));
}

TEST(LayerSites, AskForEqualCallsOnce) {
  const Model model = three_linear();
  const LayerSites sites(model, {});
  EXPECT_EQ(requests_for(sites, {1}, 4).size(), 4u);  // a, b and c, relu, loss
  std::set<std::string> keys;
  const auto requests = requests_for(sites, {1, 2}, 4);
  for (const LayerRequest& r : requests) keys.insert(sites.key(r.node, r.option, r.tensor));
  EXPECT_EQ(keys.size(), requests.size());
  // Two linear layers: replicate, columns, rows each. ReLU: replicate and features. Loss: replicate and vocabulary.
  EXPECT_EQ(requests.size(), 10u);
}

TEST(LayerSites, KnowWhichGradientsAreNeeded) {
  const Model model = three_linear();
  const LayerSites sites(model, {});
  EXPECT_EQ(sites.site(model.find("a")).wants_inputs, (std::vector<bool>{false}));
  EXPECT_EQ(sites.site(model.find("b")).wants_inputs, (std::vector<bool>{true}));
  EXPECT_EQ(sites.site(model.loss()).wants_inputs, (std::vector<bool>{true, false}));
  EXPECT_TRUE(sites.site(model.loss()).is_loss);
  const LayerSites frozen(model, {.frozen = {"a.*"}});
  EXPECT_FALSE(frozen.site(model.find("a")).differentiated);
  EXPECT_EQ(frozen.site(model.find("b")).wants_inputs, (std::vector<bool>{false}));
  EXPECT_EQ(frozen.site(model.find("b")).wants_parameters, (std::vector<bool>{true, true}));
}

TEST(LayerSites, KnowTheContentsOfInputs) {
  const Model model = three_linear();
  const LayerSites sites(model, {.precision = Precision::bf16});
  EXPECT_EQ(sites.value(0).type, at::kBFloat16);
  EXPECT_EQ(sites.value(1).below, 8) << "labels, as many as logits";
  EXPECT_EQ(sites.site(model.loss()).output.type, at::kFloat) << "losses are not rounded";

  const Model language = make_model({.name = "lstm-lm",
                                     .sample_shape = {6},
                                     .classes = 9,
                                     .options = {{"width", 8}},
                                     .task = LearningTask::language,
                                     .target_shape = {6}});
  const LayerSites tokens(language, {});
  EXPECT_EQ(tokens.value(0).below, 9);
  EXPECT_EQ(tokens.value(1).below, 9);

  const Model segnet = make_model({.name = "segnet",
                                   .sample_shape = {3, 32, 32},
                                   .classes = 5,
                                   .options = {{"width", 8}},
                                   .task = LearningTask::segmentation,
                                   .target_shape = {32, 32}});
  const LayerSites pixels(segnet, {});
  EXPECT_EQ(pixels.value(1).below, 5);
  const auto nodes = segnet.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [](const Node& n) { return n.layer && n.layer->kind() == "max_unpool2d"; });
  ASSERT_NE(found, nodes.end());
  const ValueKind positions = pixels.site(NodeId(found - nodes.begin())).inputs.at(1);
  EXPECT_EQ(positions.type, at::kByte);
  EXPECT_EQ(positions.below, 4) << "windows of 2 x 2";
}

TEST(SilentCommunicator, MovesNothing) {
  const auto group = silent_communicator(3);
  EXPECT_EQ(group->size(), 3);
  EXPECT_EQ(group->rank(), 0);
  at::Tensor own = at::full({2}, 5.0);
  group->all_reduce(own);
  EXPECT_TRUE(own.equal(at::full({2}, 5.0)));
  std::vector<at::Tensor> all{at::zeros({2}), at::zeros({2}), at::zeros({3})};
  group->all_gather(own, all);
  EXPECT_TRUE(all[1].equal(own));
  EXPECT_TRUE(all[2].equal(at::zeros({3})));
  at::Tensor sum = at::zeros({2});
  group->reduce_scatter(std::vector<at::Tensor>{own, own, own}, sum);
  EXPECT_TRUE(sum.equal(own));
  EXPECT_TRUE((own + group->receive(1, 0)).equal(own));
  EXPECT_EQ(group->group(std::vector<int>{0, 2})->size(), 2);
}

}  // namespace
}  // namespace trireme
