// Named plans, degrees and balanced stages.
#include "plan/named.h"

#include <fmt/format.h>

#include <map>
#include <random>

#include "../base/expect_error.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

Model mlp(int depth = 2) { return make_model({"mlp", {6}, 4, {{"hidden", 8}, {"depth", double(depth)}}}); }

Plan make(const std::string& name, int devices, int64_t batch = 32, int micro_batches = 0) {
  return named_plan(name, mlp(), Cluster::uniform(devices), batch, {}, micro_batches);
}

struct Expected {
  const char* name;
  int stages, positions, data, tensor, micro_batches;
  const char* schedule;
};

/// For 4 devices, a batch of 32 and 10 layers.
const Expected kExpected[] = {{"single", 1, 1, 1, 1, 1, "gpipe"},
                              {"data", 1, 1, 4, 1, 1, "gpipe"},
                              {"tensor", 1, 1, 1, 4, 1, "gpipe"},
                              {"pipeline", 4, 4, 1, 1, 16, "gpipe"},
                              {"hybrid:tensor", 1, 1, 2, 2, 1, "gpipe"},
                              {"hybrid:pipeline", 2, 2, 2, 1, 8, "gpipe"},
                              {"gpipe", 4, 4, 1, 1, 16, "gpipe"},
                              {"1f1b", 4, 4, 1, 1, 16, "1f1b"},
                              {"interleaved", 8, 4, 1, 1, 16, "interleaved"},
                              {"zero-bubble", 4, 4, 1, 1, 16, "zero-bubble"},
                              {"zero-bubble-h2", 4, 4, 1, 1, 16, "zero-bubble-h2"},
                              {"zero-bubble-2p", 4, 4, 1, 1, 16, "zero-bubble-2p"},
                              {"zero-bubble-v", 8, 4, 1, 1, 16, "zero-bubble-v"},
                              {"pipedream", 4, 4, 1, 1, 1, "pipedream"},
                              {"2bw", 4, 4, 1, 1, 16, "2bw"},
                              {"zero1", 1, 1, 4, 1, 1, "gpipe"},
                              {"zero2", 1, 1, 4, 1, 1, "gpipe"},
                              {"zero3", 1, 1, 4, 1, 1, "gpipe"}};

TEST(NamedPlan, WhatTheNamesMean) {
  const Model model = mlp(4);
  std::vector<std::string> names;
  for (const Expected& e : kExpected) {
    SCOPED_TRACE(e.name);
    names.emplace_back(e.name);
    const Plan plan = named_plan(e.name, model, Cluster::uniform(4), 32, {});
    EXPECT_EQ(plan.name, e.name);
    EXPECT_EQ(plan.devices, is_single(e.name) ? 1 : 4);
    EXPECT_EQ(int(plan.stages.size()), e.stages);
    EXPECT_EQ(plan.positions(), e.positions);
    EXPECT_EQ(plan.layers.back().data, e.data);
    EXPECT_EQ(plan.layers.back().tensor, e.tensor);
    EXPECT_EQ(plan.micro_batches, e.micro_batches);
    EXPECT_EQ(plan.schedule, e.schedule);
    const std::string name = e.name;
    EXPECT_EQ(name_of(plan.optimizer_sharding),
              name.starts_with("zero") && !name.starts_with("zero-bubble") ? name : "none");
    EXPECT_TRUE(plan.speeds.empty());
  }
  names.emplace_back("branches");
  EXPECT_EQ(known_strategies(), names);
}

TEST(NamedPlan, ChunksGoRoundTheWorkers) {
  const Model model = mlp(4);
  const Plan plan = named_plan("interleaved", model, Cluster::uniform(2), 32, {});
  EXPECT_EQ(plan.stages, (std::vector<std::vector<int>>{{0}, {1}, {0}, {1}}));
  for (NodeId id = model.input_count() + 1; id < NodeId(model.nodes().size()); ++id)
    EXPECT_GE(plan.layers[size_t(id)].stage, plan.layers[size_t(id) - 1].stage);
  const Plan three = named_plan("data=2,pipeline=2,chunks=3", model, Cluster::uniform(4), 32, {});
  EXPECT_EQ(three.schedule, "interleaved");
  EXPECT_EQ(three.stages, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {0, 1}, {2, 3}, {0, 1}, {2, 3}}));
}

TEST(NamedPlan, MicroBatches) {
  EXPECT_EQ(make("data", 4).micro_batches, 1);
  EXPECT_EQ(make("pipeline", 2).micro_batches, 8);            // 4 per stage
  EXPECT_EQ(make("pipeline", 2, 5).micro_batches, 5);         // at most the number of samples
  EXPECT_EQ(make("hybrid:pipeline", 4, 6).micro_batches, 3);  // at most the samples of a data shard
  EXPECT_EQ(make("pipeline", 2, 32, 3).micro_batches, 3);
  EXPECT_EQ(make("data", 2, 32, 3).micro_batches, 1);  // the request is for pipelines only
  EXPECT_EQ(make("pipeline=2,micro_batches=5", 2, 32, 3).micro_batches, 5);
  EXPECT_EQ(make("1f1b,micro_batches=5", 2, 32, 3).micro_batches, 5);
  EXPECT_EQ(make("1f1b", 2, 32, 3).micro_batches, 3);
  EXPECT_EQ(make("pipedream", 2, 32, 3).micro_batches, 1);           // every mini-batch has its own update
  EXPECT_EQ(make("pipedream,micro_batches=2", 2).micro_batches, 2);  // the plan accepts it, the schedule refuses it
  EXPECT_EQ(make("interleaved", 2, 5).micro_batches, 4);             // a multiple of the pipeline's depth
  EXPECT_EQ(make("pipeline,speeds=1:9", 2, 5).micro_batches, 5);     // one worker per stage: speeds divide nothing
  // Shards of 1 : 9: the slow worker gets none of 4 samples and one of 5 (0.5 is rounded up).
  EXPECT_EQ(make("data=2,pipeline=2,speeds=1:9:1:9", 4, 32).micro_batches, 6);
}

TEST(NamedPlan, MicroBatchesWithoutAPipelineAccumulate) {
  const Plan plan = make("data,micro_batches=4", 2);
  EXPECT_EQ(plan.schedule, "1f1b");  // one micro-batch in flight
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.micro_batches, 4);
  EXPECT_EQ(make("single,micro_batches=4", 2).devices, 1);
  EXPECT_EQ(make("data=2,micro_batches=4,schedule=gpipe", 2).schedule, "gpipe");
  EXPECT_EQ(make("pipeline=2,micro_batches=4", 2).schedule, "gpipe");
}

TEST(NamedPlan, KeysReachThePlan) {
  EXPECT_EQ(make("pipeline=2,schedule=zero-bubble", 2).schedule, "zero-bubble");
  EXPECT_EQ(make("data,sharding=zero2", 2).optimizer_sharding, OptimizerSharding::zero2);
  EXPECT_EQ(make("data,compression=bf16", 2).compression.kind, Compression::Kind::bf16);
  EXPECT_EQ(make("data,compression=bf16-stored", 2).compression.kind, Compression::Kind::bf16_stored);
  EXPECT_EQ(make("zero1,compression=powersgd:2", 2).compression, (Compression{Compression::Kind::powersgd, 2}));
  EXPECT_TRUE(make("pipedream,vertical_sync=1", 2).vertical_sync);
  EXPECT_FALSE(make("pipedream", 2).vertical_sync);
  EXPECT_EQ(make("data,speeds=2:1", 2).speeds, (std::vector<double>{2, 1}));
  EXPECT_TRUE(make("data,speeds=2:2", 2).speeds.empty());
}

TEST(NamedPlan, RecomputeLabelsAreBlocks) {
  const Model model = make_model({"resnet18", {3, 32, 32}, 10, {{"width", 8}}});
  const auto label = [&](const Plan& plan, const char* layer) {
    return plan.layers[size_t(model.find(layer))].recompute;
  };
  const Plan all = named_plan("data,recompute=all", model, Cluster::uniform(2), 32, {});
  EXPECT_TRUE(all.recompute_last);
  EXPECT_EQ(label(all, "conv1"), "top");
  EXPECT_EQ(label(all, "layer1.0.conv1"), "layer1.0");
  EXPECT_EQ(label(all, "layer1.0.conv2"), "layer1.0");
  EXPECT_EQ(label(all, "layer1.1.conv1"), "layer1.1");
  const Plan most = named_plan("1f1b,recompute=except_last", model, Cluster::uniform(2), 32, {});
  EXPECT_FALSE(most.recompute_last);
  EXPECT_EQ(most.layers, named_plan("1f1b,recompute=all", model, Cluster::uniform(2), 32, {}).layers);
  EXPECT_EQ(label(named_plan("data,recompute=none", model, Cluster::uniform(2), 32, {}), "conv1"), "");
}

TEST(NamedPlan, SelectiveRecomputeLabelsAttention) {
  const Model model = make_model({"transformer-lm", {8}, 10, {{"layers", 2}, {"width", 8}, {"heads", 2}}});
  const Plan plan =
      named_plan("tensor,recompute=selective,recompute_communication=1", model, Cluster::uniform(2), 8, {});
  EXPECT_TRUE(plan.recompute_communication);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const std::string_view kind = model.node(id).layer->kind();
    EXPECT_EQ(plan.layers[size_t(id)].recompute,
              kind == "attention" || kind == "linear" ? model.node(id).name : std::string());
  }
  const Plan alone = named_plan("tensor,recompute=selective", model, Cluster::uniform(2), 8, {});
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    EXPECT_EQ(alone.layers[size_t(id)].recompute.empty(), model.node(id).layer->kind() != "attention");
}

TEST(NamedPlan, RefusesRecomputeWithoutEffect) {
  const Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}}});
  const auto made = [&](const char* strategy) { named_plan(strategy, model, Cluster::uniform(2), 8, {}); };
  expect_error(Blame::user, {"recompute=selective", "no attention", "recompute=all"},
               [&] { made("data,recompute=selective"); });
  expect_error(Blame::user, {"recompute=selective", "no attention", "recompute=all"},
               [&] { made("tensor,recompute=selective,recompute_communication=1"); });
  for (const char* strategy : {"tensor,scatter_messages=1", "pipeline,scatter_messages=1"})
    expect_error(Blame::user, {"scatter_messages=1", "tensor and pipeline"}, [&] { made(strategy); });
  expect_error(Blame::user, {"recompute_communication=1", "recomputes nothing", "recompute=all"},
               [&] { made("tensor,recompute_communication=1"); });
}

TEST(NamedPlan, PlainSequencesAreRecomputedFromPoolingToPooling) {
  const Model model = make_model({"vgg11-bn", {3, 32, 32}, 10, {{"width", 2}, {"hidden", 8}}});
  const Plan plan = named_plan("single,recompute=all", model, Cluster::uniform(1), 32, {});
  std::map<std::string, std::vector<std::string>> runs;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    runs[plan.layers[size_t(id)].recompute].push_back(model.node(id).name);
  const auto layers = [](const char* parent, const std::vector<int>& numbers) {
    std::vector<std::string> names;
    for (int number : numbers) names.push_back(fmt::format("{}.{}", parent, number));
    return names;
  };
  EXPECT_EQ(runs.size(), 7u);
  EXPECT_EQ(runs["features.0"], layers("features", {0, 1, 3}));  // norm and ReLU are one layer
  EXPECT_EQ(runs["features.4"], layers("features", {4, 5, 7}));
  EXPECT_EQ(runs["features.8"], layers("features", {8, 9, 11, 12, 14}));
  EXPECT_EQ(runs["features.15"], layers("features", {15, 16, 18, 19, 21}));
  EXPECT_EQ(runs["features.22"], layers("features", {22, 23, 25, 26, 28}));
  EXPECT_EQ(runs["classifier.0"], layers("classifier", {0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(runs["top"], (std::vector<std::string>{"avgpool", "flatten", "loss"}));
}

TEST(NamedPlan, SpeedsOfTheCluster) {
  Cluster cluster = Cluster::uniform(2);
  cluster.devices[0].speed = 3;
  const Plan plan = named_plan("data", mlp(), cluster, 32, {});
  EXPECT_EQ(plan.speeds, (std::vector<double>{3, 1}));
  EXPECT_EQ(named_plan("data,speeds=1:2", mlp(), cluster, 32, {}).speeds,
            (std::vector<double>{1, 2}));  // the strategy's speeds win
  EXPECT_TRUE(named_plan("single", mlp(), cluster, 32, {}).speeds.empty());
  const Model model = mlp();
  const LayerSeconds equal(model.nodes().size(), 1.0);  // of 6 layers the worker of twice the speed gets 4
  const Plan pipeline = named_plan("pipeline,speeds=2:1", model, Cluster::uniform(2), 32, equal);
  EXPECT_EQ(std::count_if(pipeline.layers.begin() + model.input_count(), pipeline.layers.end(),
                          [](const LayerPlan& l) { return l.stage == 0; }),
            4);
}

TEST(NamedPlan, KeysThatDoNotFit) {
  expect_error(Blame::user, {"chunks=2", "under schedule gpipe a worker has one stage", "schedule=interleaved"},
               [] { make("gpipe,chunks=2", 2); });
  expect_error(Blame::user, {"2 chunks per worker", "a pipeline of at least 2"}, [] { make("data,chunks=2", 2); });
  expect_error(Blame::user, {"strategy interleaved", "a pipeline of at least 2"}, [] { make("interleaved", 1); });
  expect_error(Blame::user, {"vertical_sync = true with schedule 1f1b", "only schedule pipedream"},
               [] { make("1f1b,vertical_sync=1", 2); });
  expect_error(Blame::user, {"3 speeds", "the plan is for 2 devices", "one speed per device"},
               [] { make("data,speeds=1:2:3", 2); });
  expect_error(Blame::user,
               {"layer fc1: speeds", "the slowest of 2 data shards would get none of 4 samples", "differ less"},
               [] { make("data,speeds=1:99", 2, 4); });
}

TEST(NamedPlan, DataDegreesOfStrategies) {
  EXPECT_EQ(data_degree("single", 1), 1);
  EXPECT_EQ(data_degree("data", 8), 8);
  EXPECT_EQ(data_degree("zero2,micro_batches=4", 8), 8);
  EXPECT_EQ(data_degree("tensor", 8), 1);
  EXPECT_EQ(data_degree("1f1b", 4), 1);
  EXPECT_EQ(data_degree("hybrid:tensor", 8), 4);
  EXPECT_EQ(data_degree("hybrid:pipeline", 16), 8);
  EXPECT_EQ(data_degree("data=3,tensor=2,pipeline=2", 12), 3);
  expect_error(Blame::user, {"strategy hybrid:tensor", "even number of at least 4"},
               [] { data_degree("hybrid:tensor", 2); });
  expect_error(Blame::user, {"strategy exact", "a planner chooses it"}, [] { data_degree("exact", 2); });
}

TEST(NamedPlan, Errors) {
  expect_error(Blame::user, {"\"xyz\"", "neither a known strategy nor a degree", "hybrid:tensor", "compression=bf16"},
               [] { make("xyz", 2); });
  expect_error(Blame::user, {"\"dada\"", "neither a known strategy nor a degree", "did you mean \"data\""},
               [] { make("dada", 2); });
  expect_error(Blame::user, {"\"data=x\""}, [] { make("data=x", 2); });
  expect_error(Blame::user, {"\"data=0\""}, [] { make("data=0,tensor=2", 2); });
  expect_error(Blame::user, {"\"data=2.5\""}, [] { make("data=2.5", 2); });
  expect_error(Blame::user, {"\"tensor\""}, [] { make("data=2,tensor", 2); });
  expect_error(Blame::user, {"\"depth=2\""}, [] { make("depth=2", 2); });
  expect_error(Blame::user, {"\"data=99999999999\""}, [] { make("data=99999999999", 2); });
  expect_error(Blame::user, {"\"\"", "neither a known strategy nor a degree"}, [] { make("", 1); });
  expect_error(Blame::user, {"\"data=2\"", "twice"}, [] { make("data=1,data=2", 2); });
  expect_error(Blame::user, {"data 2 x tensor 2 x pipeline 1 = 4", "there are 3 devices"},
               [] { make("data=2,tensor=2", 3); });
  expect_error(Blame::user, {"data 65536 x tensor 65536 x pipeline 1 = 4294967296"},
               [] { make("data=65536,tensor=65536", 2); });
  expect_error(Blame::user, {"strategy hybrid:tensor", "3 devices", "even number of at least 4"},
               [] { make("hybrid:tensor", 3); });
  expect_error(Blame::user, {"strategy hybrid:pipeline", "2 devices", "--devices"}, [] { make("hybrid:pipeline", 2); });
  expect_error(Blame::user, {"tensor degree 5", "divides no layer of model mlp", "another degree"},
               [] { make("tensor", 5); });
  expect_error(Blame::user, {"7 pipeline stages", "only 6 layers", "fewer stages"}, [] { make("pipeline", 7); });
  expect_error(Blame::user, {"strategy data", "data degree 4", "batch = 3 has fewer samples"},
               [] { make("data", 4, 3); });
}

TEST(NamedPlan, HybridIsTwoStrategies) {
  EXPECT_EQ(expand_strategy("hybrid"), (std::vector<std::string>{"hybrid:tensor", "hybrid:pipeline"}));
  EXPECT_EQ(expand_strategy("hybrid,compression=bf16"),
            (std::vector<std::string>{"hybrid:tensor,compression=bf16", "hybrid:pipeline,compression=bf16"}));
  EXPECT_EQ(expand_strategy("data"), std::vector<std::string>{"data"});
}

double greatest_stage(const Model& model, const std::vector<int>& stage_of, const std::vector<double>& speeds,
                      const LayerSeconds& seconds) {
  std::vector<double> sums(speeds.size(), 0.0);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    sums[size_t(stage_of[size_t(id)])] += seconds[size_t(id)] / speeds[size_t(stage_of[size_t(id)])];
  return *std::max_element(sums.begin(), sums.end());
}

/// Tries every way to cut the layers from `from` on into non-empty runs, one for each stage from `stage` on.
double best_by_trying(const Model& model, NodeId from, size_t stage, const std::vector<double>& speeds,
                      const LayerSeconds& seconds) {
  const auto end = NodeId(model.nodes().size());
  if (stage + 1 == speeds.size()) {
    double sum = 0;
    for (NodeId id = from; id < end; ++id) sum += seconds[size_t(id)];
    return sum / speeds[stage];
  }
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (NodeId cut = from + 1; end - cut >= NodeId(speeds.size() - stage) - 1; ++cut) {
    sum += seconds[size_t(cut) - 1];
    best = std::min(best, std::max(sum / speeds[stage], best_by_trying(model, cut, stage + 1, speeds, seconds)));
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
    std::vector<double> speeds(size_t(stages), 1.0);
    const bool equal = round % 2 == 0;
    for (double& speed : speeds) speed = equal ? 1 : double(1 + random() % 4);
    auto stage_of = balance_stages(model, stages, seconds, equal ? std::vector<double>{} : speeds);
    EXPECT_NEAR(greatest_stage(model, stage_of, speeds, seconds),
                best_by_trying(model, model.input_count(), 0, speeds, seconds), 1e-9);
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
