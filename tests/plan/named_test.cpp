// Named plans, degrees and the balancing of stages.
#include "plan/named.h"

#include <random>

#include "../base/expect_error.h"
#include "model/layers/relu.h"
#include "model/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

Model mlp(int depth = 2) { return make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", double(depth)}}}); }

Plan make(const std::string& name, int devices, int64_t batch = 32, int micro_batches = 0) {
  return named_plan(name, mlp(), Cluster::uniform(devices), batch, {}, micro_batches);
}

TEST(NamedPlan, Degrees) {
  for (const std::string& name : known_strategies()) {
    const Plan plan = make(name, 4);
    EXPECT_EQ(plan.name, name);
    EXPECT_EQ(plan.devices, is_single(name) ? 1 : 4);
    const int stages = name == "pipeline" ? 4 : name == "hybrid:pipeline" ? 2 : 1;
    const int data = name == "data" ? 4 : name.rfind("hybrid", 0) == 0 ? 2 : 1;
    const int tensor = name == "tensor" ? 4 : name == "hybrid:tensor" ? 2 : 1;
    EXPECT_EQ(int(plan.stages.size()), stages) << name;
    EXPECT_EQ(plan.layers.back().data, data) << name;
    EXPECT_EQ(plan.layers.back().tensor, tensor) << name;
  }
}

TEST(NamedPlan, MicroBatches) {
  EXPECT_EQ(make("data", 4).micro_batches, 1);
  EXPECT_EQ(make("pipeline", 2).micro_batches, 8);                    // 4 per stage
  EXPECT_EQ(make("pipeline", 2, 5).micro_batches, 5);                 // never more than samples
  EXPECT_EQ(make("hybrid:pipeline", 4, 6).micro_batches, 3);          // of a data shard
  EXPECT_EQ(make("pipeline", 2, 32, 3).micro_batches, 3);
  EXPECT_EQ(make("data", 2, 32, 3).micro_batches, 1);                 // asked for pipelines only
  EXPECT_EQ(make("pipeline=2,micro_batches=5", 2, 32, 3).micro_batches, 5);
}

TEST(NamedPlan, Errors) {
  expect_error(Blame::user, {"\"dada\"", "neither a known plan nor a degree", "hybrid:tensor"}, [] { make("dada", 2); });
  expect_error(Blame::user, {"\"data=x\""}, [] { make("data=x", 2); });
  expect_error(Blame::user, {"\"data=0\""}, [] { make("data=0,tensor=2", 2); });
  expect_error(Blame::user, {"\"data=2.5\""}, [] { make("data=2.5", 2); });
  expect_error(Blame::user, {"\"tensor\""}, [] { make("data=2,tensor", 2); });
  expect_error(Blame::user, {"\"depth=2\""}, [] { make("depth=2", 2); });
  expect_error(Blame::user, {"\"data=99999999999\""}, [] { make("data=99999999999", 2); });
  expect_error(Blame::user, {"\"\"", "neither a known plan nor a degree"}, [] { make("", 1); });
  expect_error(Blame::user, {"\"data=2\"", "twice"}, [] { make("data=1,data=2", 2); });
  expect_error(Blame::user, {"data 2 x tensor 2 x pipeline 1 = 4", "has 3 devices"}, [] { make("data=2,tensor=2", 3); });
  expect_error(Blame::user, {"data 65536 x tensor 65536 x pipeline 1 = 4294967296"}, [] { make("data=65536,tensor=65536", 2); });
  expect_error(Blame::user, {"strategy hybrid:tensor", "3 devices", "even number of at least 4"}, [] { make("hybrid:tensor", 3); });
  expect_error(Blame::user, {"strategy hybrid:pipeline", "2 devices", "--devices"}, [] { make("hybrid:pipeline", 2); });
  expect_error(Blame::user, {"tensor degree 5", "divides no layer of model mlp", "another degree"}, [] { make("tensor", 5); });
  expect_error(Blame::user, {"7 pipeline stages", "only 6 layers", "fewer stages"}, [] { make("pipeline", 7); });
  expect_error(Blame::user, {"strategy data", "data degree 4", "batch = 3 has fewer samples"}, [] { make("data", 4, 3); });
}

TEST(NamedPlan, HybridIsTwoStrategies) {
  EXPECT_EQ(expand_strategy("hybrid"), (std::vector<std::string>{"hybrid:tensor", "hybrid:pipeline"}));
  EXPECT_EQ(expand_strategy("data"), std::vector<std::string>{"data"});
}

double greatest_stage(const Model& model, const std::vector<int>& stage_of, int stages, const LayerSeconds& seconds) {
  std::vector<double> sums(size_t(stages), 0.0);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) sums[size_t(stage_of[size_t(id)])] += seconds[size_t(id)];
  return *std::max_element(sums.begin(), sums.end());
}

/// Tries every way to cut `layers` into `stages` non-empty runs.
double best_by_trying(const Model& model, NodeId from, int stages, const LayerSeconds& seconds) {
  const auto end = NodeId(model.nodes().size());
  if (stages == 1) {
    double sum = 0;
    for (NodeId id = from; id < end; ++id) sum += seconds[size_t(id)];
    return sum;
  }
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (NodeId cut = from + 1; end - cut >= stages - 1; ++cut) {
    sum += seconds[size_t(cut) - 1];
    best = std::min(best, std::max(sum, best_by_trying(model, cut, stages - 1, seconds)));
  }
  return best;
}

TEST(BalanceStages, EqualsTryingAllCuts) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const Model model = mlp(1 + int(random() % 5));
    const int layers = int(model.nodes().size()) - model.input_count();
    LayerSeconds seconds(model.nodes().size(), 0.0);
    for (NodeId id = model.input_count(); id < NodeId(seconds.size()); ++id)
      seconds[size_t(id)] = random() % 4 == 0 ? 0.0 : double(random() % 1000);
    const int stages = 1 + int(random() % uint64_t(std::min(layers, 5)));
    auto stage_of = balance_stages(model, stages, seconds);
    EXPECT_DOUBLE_EQ(greatest_stage(model, stage_of, stages, seconds), best_by_trying(model, model.input_count(), stages, seconds));
    std::vector<bool> used(size_t(stages), false);
    for (NodeId id = model.input_count(); id < NodeId(seconds.size()); ++id) {
      used[size_t(stage_of[size_t(id)])] = true;
      if (id == model.input_count()) continue;
      EXPECT_GE(stage_of[size_t(id)], stage_of[size_t(id) - 1]);
    }
    for (bool u : used) EXPECT_TRUE(u);
  }
}

TEST(BalanceStages, MeasuredSecondsDecide) {
  const Model model = mlp();  // fc1 relu1 fc2 relu2 fc3 loss
  LayerSeconds seconds(model.nodes().size(), 1.0);
  seconds[size_t(model.find("fc1"))] = 100;
  const Plan plan = named_plan("pipeline", model, Cluster::uniform(2), 32, seconds);
  EXPECT_EQ(plan.layers[size_t(model.find("fc1"))].stage, 0);
  EXPECT_EQ(plan.layers[size_t(model.find("relu1"))].stage, 1);
}

}  // namespace
}  // namespace trireme
