// Plans that no strategy gives: edited or random ones; bfloat16; runs that repeat bit for bit.
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "equivalence.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

LayerPlan& layer(Plan& plan, const Model& model, const std::string& name) {
  return plan.layers.at(size_t(model.find(name)));
}

/// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: convolutions split the batch,
/// fully connected layers split their features.
Plan one_weird_trick(const Model& model) {
  Plan plan = plan_of("data=4", model);
  plan.name = "one weird trick";
  const std::vector<std::pair<std::string, std::string>> tail{
      {"fc1", "columns"}, {"relu3", "channels"}, {"fc2", "rows"}, {"loss", "replicate"}};
  for (const auto& [name, split] : tail) layer(plan, model, name) = {0, 1, 4, split};
  return plan;
}

TEST(EditedPlans, OneWeirdTrick) {
  const Model model = small_model("convnet");
  const Plan plan = one_weird_trick(model);
  validate(plan, model, kBatch, "test");
  for (const Recipe& recipe : recipes()) expect_equivalent(model, plan, recipe, {});
}

TEST(EditedPlans, TheVocabularySplitOfTheLoss) {
  const Model model = small_model("mlp");
  for (const char* degrees : {"tensor=2", "data=2,tensor=2", "tensor=2,pipeline=2,micro_batches=3"}) {
    Plan plan = plan_of(degrees, model);
    layer(plan, model, "fc3").split = "columns";
    layer(plan, model, "loss").split = "vocabulary";
    validate(plan, model, kBatch, "test");
    for (const Recipe& recipe : recipes()) expect_equivalent(model, plan, recipe, {});
  }
}

/// Stages that are not runs of layers: one worker has the middle of the chain, the other both ends.
TEST(EditedPlans, StagesThatAreNotContiguous) {
  const Model model = small_model("skip");
  Plan plan = plan_of("pipeline=3,micro_batches=3", model);
  plan.name = "ends and middle";
  int turn = 0;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = turn++ % 3;
  validate(plan, model, kBatch, "test");
  for (const Recipe& recipe : recipes()) expect_equivalent(model, plan, recipe, {});
}

/// The two branches of a residual block with a projection run on their own workers.
TEST(EditedPlans, BranchesOnDifferentWorkers) {
  const Model model = small_model("resnet");
  Plan plan = plan_of("pipeline=2,micro_batches=2", model);
  plan.name = "branches";
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = model.node(id).name.find("downsample") != std::string::npos ? 1 : 0;
  validate(plan, model, kBatch, "test");
  expect_equivalent(model, plan, recipes()[1], {});
}

class RandomPlan {
 public:
  RandomPlan(const Model& model, uint64_t seed) : model_(model), random_(seed) {}

  Plan draw() {
    plan_ = {};
    plan_.name = "random";
    plan_.model = model_.name();
    plan_.model_fingerprint = model_.fingerprint();
    plan_.devices = pick({2, 3, 4, 4, 5, 6});
    plan_.micro_batches = below(4) + 1;
    std::vector<int> ranks(size_t(plan_.devices));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    const int stages = std::min(plan_.devices, below(3) + 1);
    plan_.stages.resize(size_t(stages));
    for (size_t i = 0; i < ranks.size(); ++i)
      plan_.stages[i < size_t(stages) ? i : size_t(below(stages))].push_back(ranks[i]);
    for (auto& stage : plan_.stages) std::sort(stage.begin(), stage.end());
    plan_.schedule = std::vector<std::string>{"gpipe", "1f1b", "zero-bubble"}[size_t(below(3))];
    plan_.optimizer_sharding = OptimizerSharding(std::max(0, below(8) - 4));
    plan_.recompute_last = below(2) == 0;
    plan_.recompute_communication = below(2) == 0;
    plan_.scatter_messages = below(2) == 0;
    if (below(4) == 0)
      for (int d = 0; d < plan_.devices; ++d) plan_.speeds.push_back(1 + below(3));
    plan_.layers.resize(model_.nodes().size());
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) draw_layer(id);
    return plan_;
  }

 private:
  int below(int n) { return int(random_() % uint64_t(n)); }
  int pick(const std::vector<int>& values) { return values[size_t(below(int(values.size())))]; }

  void draw_layer(NodeId id) {
    LayerPlan& layer = plan_.layers[size_t(id)];
    layer.stage = below(int(plan_.stages.size()));
    const int workers = int(plan_.stages[size_t(layer.stage)].size());
    std::vector<int> divisors;
    for (int d = 1; d <= workers; ++d)
      if (workers % d == 0) divisors.push_back(d);
    layer.tensor = pick(divisors);
    layer.data = workers / layer.tensor;
    auto options = model_.node(id).layer->sharding_options(model_.input_shapes(id), layer.tensor);
    layer.split = options[size_t(below(int(options.size())))].name;
    if (below(3) == 0) layer.recompute = below(2) == 0 ? "a" : "b";
  }

  const Model& model_;
  std::mt19937_64 random_;
  Plan plan_;
};

/// A random plan that validate accepts: tied weights are cut alike, and every stage has a layer.
Plan random_valid_plan(const Model& model, uint64_t seed) {
  RandomPlan random(model, seed);
  while (true) {
    Plan plan = random.draw();
    try {
      validate(plan, model, kBatch, "random plan");
      return plan;
    } catch (const Error&) {
    }
  }
}

void try_random_plans(const std::string& name, int count, const Comparison& comparison) {
  const uint64_t first = std::random_device{}();
  const Model model = small_model(name);
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    const uint64_t seed = first + uint64_t(i);
    const Plan plan = random_valid_plan(model, seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", plan " + to_json(plan, model).dump());
    expect_equivalent(model, plan, recipes()[size_t(i) % recipes().size()], comparison);
  }
}

TEST(RandomPlans, Mlp) { try_random_plans("mlp", 60, {}); }
TEST(RandomPlans, Skip) { try_random_plans("skip", 60, {}); }
TEST(RandomPlans, Dropout) { try_random_plans("dropout-mlp", 40, {}); }
TEST(RandomPlans, Tied) { try_random_plans("tied-mlp", 40, {}); }
TEST(RandomPlans, Convnet) { try_random_plans("convnet", 25, {}); }
TEST(RandomPlans, Resnet) { try_random_plans("resnet", 15, {}); }
TEST(RandomPlans, ResnetWithGlobalBatchNorm) { try_random_plans("resnet-bn", 15, {}); }

/// Replicas cannot differ, because all holders of a parameter share one copy. So this test only shows that runs repeat
/// bit for bit.
TEST(BitExact, TwoRunsOfAPlan) {
  for (const char* name : {"mlp", "convnet", "resnet-bn"})
    for (const char* degrees : {"data=3", "tensor=4", "data=2,tensor=2", "data=2,pipeline=2,micro_batches=3"})
      for (Precision precision : {Precision::fp32, Precision::bf16}) {
        SCOPED_TRACE(std::string(name) + ", " + degrees + ", " + name_of(precision));
        const Model model = small_model(name);
        const Plan plan = plan_of(degrees, model);
        const Comparison c{.precision = precision};
        auto first = run_recipe(model, plan, recipes()[1], c, true),
             second = run_recipe(model, plan, recipes()[1], c, true);
        for (size_t s = 0; s < first.size(); ++s) {
          EXPECT_EQ(first[s].loss, second[s].loss);
          for (size_t p = 0; p < first[s].parameters.size(); ++p)
            EXPECT_TRUE(at::equal(first[s].parameters[p], second[s].parameters[p])) << first[s].names[p];
        }
      }
}

/// One micro-batch on one worker in a pipeline of one stage is plain training, bit for bit.
TEST(BitExact, DegenerateGpipeIsPlainTraining) {
  const Model model = small_model("convnet");
  auto plain = run_recipe(model, plan_of("data=1", model), recipes()[3], {.precision = Precision::fp32}, true);
  auto piped = run_recipe(model, plan_of("pipeline=1,micro_batches=1", model), recipes()[3],
                          {.precision = Precision::fp32}, true);
  for (size_t s = 0; s < plain.size(); ++s)
    for (size_t p = 0; p < plain[s].parameters.size(); ++p)
      EXPECT_TRUE(at::equal(plain[s].parameters[p], piped[s].parameters[p]));
}

/// In bfloat16 each plan rounds sums in other places; the curves stay close.
TEST(Bfloat16, LossStaysWithSingle) {
  constexpr double kTolerance = 0.03;  // relative to the loss, about 4 units of bfloat16
  for (const char* name : {"mlp", "skip", "dropout-mlp", "tied-mlp", "convnet"})
    for (const char* degrees : {"data=3", "tensor=2", "pipeline=2,micro_batches=3", "data=2,tensor=2",
                                "data=2,pipeline=2,micro_batches=2", "tensor=2,pipeline=2,micro_batches=2"}) {
      SCOPED_TRACE(std::string(name) + ", " + degrees);
      const Model model = small_model(name);
      const Comparison c{.precision = Precision::bf16, .batches = {13, 7, 2, 13, 7, 2, 13, 7}};
      auto expected = run_recipe(model, single_plan(model), recipes()[3], c, true);
      auto actual = run_recipe(model, plan_of(degrees, model), recipes()[3], c, true);
      for (size_t s = 0; s < expected.size(); ++s)
        EXPECT_NEAR(actual[s].loss, expected[s].loss, kTolerance * expected[s].loss);
    }
}

}  // namespace
}  // namespace trireme::test_support
