// Compares the step model with numbers worked out by hand, and its links and moves with what plan_transfers sends.
#include "planner/exact/step_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../../base/expect_error.h"
#include "fake_costs.h"
#include "plan/named.h"
#include "tensor/redistribute.h"

namespace trireme {
namespace {

/// Every layer takes 1 s forward and 2 s backward (1 for each part) per sample, and keeps 10 bytes per sample.
class PlainCosts : public LayerCosts {
 public:
  LayerCost seconds(NodeId, const ShardingOption& option, int tensor, int64_t samples, int) const override {
    const double work = double(samples) / (option.divides_work ? tensor : 1);
    return {.forward = work, .backward = 2 * work, .backward_input = work, .backward_weight = work};
  }
  LayerMemory memory(NodeId, const ShardingOption&, int, int64_t samples) const override {
    return {.saved = 10 * samples, .keeps_input = {false, false}, .forward_workspace = 7, .input_gradients = {0, 0}};
  }
  double update_seconds(int64_t elements, int, int) const override { return double(elements) * 1e-3; }
};

/// `layers` linear layers of 4 x 4 without bias, and the loss.
Model chain(int layers) {
  ModelBuilder b("chain");
  NodeId x = b.input("data", {4});
  const NodeId target = b.input("target", {});
  for (int l = 0; l < layers; ++l) x = b.layer<Linear>({x}, fmt::format("fc{}", l), 4, 4, LinearOptions{.bias = false});
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

struct Setting {
  explicit Setting(int layers, Cluster devices, int64_t batch = 8)
      : model(chain(layers)),
        cluster(std::move(devices)),
        request{.model = model, .cluster = cluster, .costs = costs, .batch = batch},
        facts(request),
        step(facts) {}

  Prediction predict(const std::string& strategy) {
    return step.predict(named_plan(strategy, model, cluster, request.batch, LayerSeconds(model.nodes().size(), 1.0)));
  }

  PlainCosts costs;
  Model model;
  Cluster cluster;
  PlanRequest request;
  ModelFacts facts;
  StepModel step;
};

Cluster linked(int devices, double bandwidth, Overlap overlap) {
  Cluster cluster = Cluster::uniform(devices);
  cluster.nodes.resize(1);
  cluster.nodes[0].link = {bandwidth, 0.5, false};
  cluster.overlap = overlap;
  return cluster;
}

void expect_sum(const Prediction& p) {
  EXPECT_NEAR(p.compute + p.communication + p.reduction + p.update + p.bubble, p.seconds, 1e-9 * p.seconds);
  EXPECT_GE(p.bubble, -1e-9);
}

TEST(StepModel, OneDevice) {
  Setting s(3, Cluster::uniform(1));
  const Prediction p = s.predict("single");
  // 4 layers of 3 s per sample, 8 samples; 3 x 16 weights.
  EXPECT_DOUBLE_EQ(p.seconds, 4 * 3 * 8 + 0.048);
  EXPECT_DOUBLE_EQ(p.compute, 96);
  EXPECT_DOUBLE_EQ(p.memory[0].weights, 48 * 4);
  EXPECT_DOUBLE_EQ(p.memory[0].gradients, 48 * 4);
  EXPECT_DOUBLE_EQ(p.memory[0].activations, 4 * 10 * 8);
  EXPECT_DOUBLE_EQ(p.memory[0].workspace, 7);
  expect_sum(p);
}

TEST(StepModel, DataParallelReducesByTheRingFormula) {
  Setting s(3, linked(4, 64, Overlap::nothing));
  const Prediction p = s.predict("data");
  const double ring = 2 * 3 * 0.5 + 2 * 3.0 / 4 * 64 / 64;  // for the 16 weights of a layer
  EXPECT_DOUBLE_EQ(p.compute, 4 * 3 * 2);
  EXPECT_DOUBLE_EQ(p.reduction, 3 * ring);
  EXPECT_DOUBLE_EQ(p.seconds, 24 + 3 * ring + 0.048);
  expect_sum(p);
}

TEST(StepModel, ReductionsHideBehindTheRestOfBackward) {
  Setting s(3, linked(4, 64, Overlap::all));
  const double ring = 4.5, backward = 2 * 2;
  // The reduction of fc2 begins after its backward and overlaps with the backward of fc1, and so on. Each takes 0.5 s
  // longer than a backward.
  EXPECT_DOUBLE_EQ(s.predict("data").reduction, 2 * (ring - backward) + ring);
  Setting fast(3, linked(4, 1e9, Overlap::all), 80);
  EXPECT_NEAR(fast.predict("data").reduction, 3, 1e-6) << "of the first layer, which has nothing to hide behind";
}

TEST(StepModel, SumsAloneHideWhereNothingElseOverlaps) {
  const auto predicted = [](const char* plan, Overlap overlap) {
    return Setting(3, linked(4, 64, overlap)).predict(plan).seconds;
  };
  for (const char* plan : {"data", "zero1", "zero2"}) {
    EXPECT_EQ(predicted(plan, Overlap::sums), predicted(plan, Overlap::all)) << plan;
    EXPECT_EQ(predicted(plan, Overlap::messages), predicted(plan, Overlap::sums)) << plan;
    EXPECT_LT(predicted(plan, Overlap::sums), predicted(plan, Overlap::nothing)) << plan;
  }
  EXPECT_LT(predicted("zero3", Overlap::all), predicted("zero3", Overlap::sums)) << "weights are gathered";
  EXPECT_LT(predicted("zero3", Overlap::sums), predicted("zero3", Overlap::nothing));
}

TEST(StepModel, ZeroOneBringsTheWeightsBack) {
  Setting s(3, linked(4, 64, Overlap::nothing));
  const Prediction p = s.predict("zero1");
  EXPECT_DOUBLE_EQ(p.reduction, 3 * 4.5);
  EXPECT_DOUBLE_EQ(p.update, 0.012);
  s.request.optimizer_tensors = 2;
  EXPECT_DOUBLE_EQ(s.predict("data").memory[0].optimizer, 48 * 8) << "not divided";
  const DeviceMemory zero3 = Setting(3, linked(4, 64, Overlap::nothing)).predict("zero3").memory[0];
  EXPECT_DOUBLE_EQ(zero3.weights + zero3.gradients, 48 * 8 / 4);
}

TEST(StepModel, EqualStagesTakeTheSchedulesTime) {
  // 4 layers of 1 + 2 s, micro-batches of one sample; nothing else takes time.
  Setting s(3, Cluster::uniform(4), 8);
  const double update = 0.016;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const Prediction p = s.predict(fmt::format("pipeline,schedule={},micro_batches=8", schedule));
    EXPECT_DOUBLE_EQ(p.seconds, (8 + 4 - 1) * 3 + update) << schedule;
    EXPECT_DOUBLE_EQ(p.bubble, 3 * 3) << schedule;
    expect_sum(p);
  }
  // (m + p - 1)(t_F + t_B) + (m - p + 1) t_W
  EXPECT_DOUBLE_EQ(s.predict("zero-bubble,micro_batches=8").seconds, 11 * 2 + 5 + update);
  Setting two(3, Cluster::uniform(2), 8);
  // Each worker has two stages of one layer: m t + (p - 1) t / v.
  EXPECT_DOUBLE_EQ(two.predict("interleaved,micro_batches=8").seconds, 8 * 6 + 3 + 2 * update);
  // Four passes of c = 2 and w = 1 for each of 8 micro-batches; the bubble (p - 1)(c - 2 w) is 0.
  EXPECT_DOUBLE_EQ(two.predict("zero-bubble-v,micro_batches=8").seconds, 8 * 6 + 2 * update);
}

TEST(StepModel, InFlightMicroBatchesKeepActivations) {
  Setting s(3, Cluster::uniform(4), 8);
  const auto kept = [&](const char* strategy) {
    std::vector<double> bytes;
    for (const DeviceMemory& memory : s.predict(strategy).memory) bytes.push_back(memory.activations / 10);
    return bytes;
  };
  EXPECT_EQ(kept("gpipe,micro_batches=8"), (std::vector<double>{8, 8, 8, 8}));
  EXPECT_EQ(kept("1f1b,micro_batches=8"), (std::vector<double>{4, 3, 2, 1}));
  EXPECT_EQ(kept("zero-bubble,micro_batches=8"), (std::vector<double>{4, 4, 4, 4}));
  // Kept are the inputs of each block (16 bytes; here each layer is a block, and the first reads the data) and the
  // activations of the largest block.
  EXPECT_EQ(kept("gpipe,micro_batches=8,recompute=all"), (std::vector<double>{13.8, 13.8, 13.8, 17.0}));
}

TEST(StepModel, TensorParallelPairsOfLinearLayersAllReduce) {
  Setting s(2, linked(2, 64, Overlap::nothing), 4);
  Plan plan = named_plan("tensor", s.model, s.cluster, 4, LayerSeconds(s.model.nodes().size(), 1.0));
  plan.layers[2].split = "columns";
  plan.layers[3].split = "rows";
  plan.layers[4].split = "replicate";
  const Prediction p = s.step.predict(plan);
  // Forward: the sum of "rows" is all-reduced. Backward: no gradient of the data is needed. 4 samples x 16 bytes.
  EXPECT_DOUBLE_EQ(p.communication, 2 * 0.5 + 64.0 / 64);
  EXPECT_DOUBLE_EQ(p.compute, 2 * 3 * 2 + 3 * 4);
  EXPECT_DOUBLE_EQ(p.reduction, 0);
  EXPECT_DOUBLE_EQ(p.memory[0].weights, 64);
}

TEST(StepModel, SplitLossesCommunicate) {
  Setting s(1, linked(2, 64, Overlap::nothing));
  Plan plan = named_plan("tensor", s.model, s.cluster, s.request.batch, LayerSeconds(s.model.nodes().size(), 1.0));
  plan.layers[size_t(s.model.find("fc0"))].split = "columns";
  plan.layers[size_t(s.model.find("loss"))].split = "vocabulary";
  // For 8 rows, first 2, then 5 floats each; nothing else moves.
  const double maxima = 2 * (0.5 + 0.5 * 8 * 2 * 4 / 64), sums = 2 * (0.5 + 0.5 * 8 * 5 * 4 / 64);
  const Prediction p = s.step.predict(plan);
  EXPECT_DOUBLE_EQ(p.communication, maxima + sums);
  expect_sum(p);
}

TEST(StepModel, SaysWhatItDoesNotKnow) {
  Setting s(3, Cluster::uniform(2));
  expect_error(Blame::user, {"pipedream", "batches overlap"}, [&] { s.predict("pipedream"); });
  expect_error(Blame::user, {"compressed"}, [&] { s.predict("data,compression=bf16"); });
  expect_error(Blame::user, {"except for the last"}, [&] { s.predict("data,recompute=except_last"); });
}

TEST(StageLinks, SharedLinksAndNodes) {
  Cluster cluster = linked(8, 100, Overlap::all);
  for (int i = 4; i < 8; ++i) cluster.devices[size_t(i)].node = 1;
  cluster.nodes.push_back(cluster.nodes[0]);
  cluster.network = {10, 2, false};
  EXPECT_DOUBLE_EQ(ring_link(cluster, {0, 4}, 1, 4).seconds_per_byte, 0.01);
  EXPECT_DOUBLE_EQ(ring_link(cluster, {0, 8}, 1, 8).seconds_per_byte, 0.1) << "one ring through each connection";
  EXPECT_DOUBLE_EQ(ring_link(cluster, {0, 8}, 4, 2).seconds_per_byte, 0.4) << "four rings";
  EXPECT_DOUBLE_EQ(ring_link(cluster, {0, 8}, 4, 2).latency, 2);
  EXPECT_DOUBLE_EQ(ring_link(cluster, {2, 4}, 1, 2).seconds_per_byte, 0.01);
  EXPECT_DOUBLE_EQ(exchange_link(cluster, {0, 8}, 8).seconds_per_byte, 0.4);
  EXPECT_DOUBLE_EQ(entry_link(cluster, {4, 4}).seconds_per_byte, 0.4);
  EXPECT_DOUBLE_EQ(entry_link(cluster, {2, 2}).seconds_per_byte, 0.01);
  EXPECT_DOUBLE_EQ(exit_link(cluster, {2, 2}).seconds_per_byte, 0.2);
  cluster.nodes[0].link.shared = true;
  EXPECT_DOUBLE_EQ(ring_link(cluster, {0, 4}, 1, 4).seconds_per_byte, 0.04);
}

/// The most elements that a worker receives, and from how many workers.
Arrivals received(int workers, const StageLayout& from, const StageLayout& to, const Shape& shape) {
  Mesh mesh;
  for (int w = 0; w < workers; ++w) mesh.workers.push_back(w);
  const auto layout = [&](const StageLayout& l) {
    Mesh at = mesh;
    at.tensor = l.tensor;
    at.data = workers / l.tensor;
    return Layout{at, Placement::shard(0), l.placement};
  };
  std::vector<double> elements(static_cast<size_t>(workers));
  std::vector<int> messages(static_cast<size_t>(workers));
  for (const TensorTransfer& t : plan_transfers(layout(from), layout(to), shape)) {
    if (t.source == t.destination) continue;
    elements[size_t(t.destination)] += double(element_count(shape_of(t.box)));
    ++messages[size_t(t.destination)];
  }
  return {*std::max_element(elements.begin(), elements.end()) / double(element_count(shape)),
          *std::max_element(messages.begin(), messages.end())};
}

TEST(RedistributionCosts, ArriveAsPlanTransfersSends) {
  const std::vector<Placement> placements{Placement::replicate(), Placement::shard(1), Placement::shard(2),
                                          Placement::partial()};
  for (const int workers : {2, 4, 6, 8})
    for (int a = 1; a <= workers; ++a)
      for (int b = 1; b <= workers; ++b) {
        if (workers % a || workers % b || a == b) continue;
        for (const Placement& from : placements)
          for (const Placement& to : placements) {
            if (to.is_partial() || (a == 1 && !from.is_replicate()) || (b == 1 && !to.is_replicate())) continue;
            const Shape shape{24, 24, 24};
            const Arrivals real = received(workers, {a, from}, {b, to}, shape),
                           closed = arrivals(workers, {a, from}, {b, to});
            EXPECT_NEAR(closed.share, real.share, 1e-12)
                << workers << ": " << a << to_string(from) << " -> " << b << to_string(to);
            EXPECT_EQ(closed.messages, real.messages)
                << workers << ": " << a << to_string(from) << " -> " << b << to_string(to);
          }
      }
}

}  // namespace
}  // namespace trireme
