#include "plan/blocks.h"

#include <gtest/gtest.h>

#include "plan/named.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

TEST(BlockStrategies, OneForEachBlockAndStage) {
  const Model model = make_model({"cifar-resnet18", {3, 32, 32}, 10, {{"width", 16}}});
  Plan plan = named_plan("data=2,tensor=2", model, Cluster::uniform(4), 16, {});
  std::vector<BlockStrategy> blocks = block_strategies(plan, model);
  int layers = 0;
  for (const BlockStrategy& block : blocks) {
    layers += block.layers;
    EXPECT_EQ(block.stage, 0);
    EXPECT_TRUE(block.strategy.find("data 2 x tensor 2") != std::string::npos) << block.block;
  }
  EXPECT_EQ(layers, int(model.nodes().size()) - model.input_count());
  EXPECT_TRUE(std::any_of(blocks.begin(), blocks.end(), [](const BlockStrategy& b) { return b.block == "layer1.0"; }));

  plan = named_plan("single", model, Cluster::uniform(1), 16, {});
  for (const BlockStrategy& block : block_strategies(plan, model)) EXPECT_EQ(block.strategy, "one device");

  plan = named_plan("pipeline", model, Cluster::uniform(4), 16, {});
  blocks = block_strategies(plan, model);
  EXPECT_EQ(blocks.front().stage, 0);
  EXPECT_EQ(blocks.back().stage, 3);
}

TEST(BlockStrategies, AllThatItsLayersGot) {
  const Model model = make_model({"mlp", {8}, 4, {{"hidden", 8}, {"depth", 2}}});
  Plan plan = named_plan("data", model, Cluster::uniform(2), 16, {});
  plan.layers.back() = {0, 1, 2, "replicate"};
  const auto blocks = block_strategies(plan, model);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].block, "top");
  EXPECT_EQ(blocks[0].strategy, "data 2, 2 copies");
}

}  // namespace
}  // namespace trireme
