// Options of plans and of models: layers that the loss does not depend on, parameters that few workers use, branches on
// their own workers, running statistics of deferred batch norm, devices of unequal speed.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <random>
#include <set>

#include "equivalence.h"
#include "experiment/make_plan.h"
#include "plan/branches.h"
#include "program/clock.h"
#include "program/compile.h"
#include "program/engine.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "train/trainer.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

/// An mlp with two hidden layers. With `unused` it also has a branch of two linear layers whose output no layer reads.
Model with_unused(bool unused) {
  ModelBuilder b("unused");
  NodeId x = b.input("data", {6}), target = b.input("target", {});
  x = b.layer<Relu>({b.layer<Linear>({x}, "fc1", 6, 8)}, "relu1");
  if (unused) b.layer<Linear>({b.layer<Relu>({b.layer<Linear>({x}, "dead1", 8, 8)}, "dead_relu")}, "dead2", 8, 4);
  x = b.layer<Relu>({b.layer<Linear>({x}, "fc2", 8, 8)}, "relu2");
  x = b.layer<Linear>({x}, "fc3", 8, kClasses);
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

/// Puts layers whose names begin with `prefix` on `stage`, all others on the other of two stages.
Plan with_apart(Plan plan, const Model& model, const std::string& prefix, int stage) {
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = model.node(id).name.starts_with(prefix) ? stage : 1 - stage;
  plan.name = prefix + " apart: " + plan.name;
  validate(plan, model, kBatch, "test");
  return plan;
}

std::vector<Plan> plans_with_unused(const Model& model) {
  std::vector<Plan> plans;
  for (const char* text :
       {"data=1", "data=3", "tensor=2", "data=2,tensor=2", "pipeline=2,micro_batches=3", "data=2,sharding=zero1",
        "data=3,sharding=zero2", "data=3,sharding=zero3", "data=2,recompute=all", "data=2,compression=none",
        "pipeline=2,micro_batches=3,schedule=zero-bubble"})
    plans.push_back(plan_of(text, model));
  for (const char* text : {"pipeline=2,micro_batches=3", "pipeline=2,micro_batches=2,schedule=1f1b",
                           "data=2,pipeline=2,micro_batches=2", "data=2,pipeline=2,micro_batches=2,sharding=zero3"})
    for (int stage : {0, 1}) plans.push_back(with_apart(plan_of(text, model), model, "dead", stage));
  return plans;
}

TEST(Unused, ParametersStayAsTheyAre) {
  const Model model = with_unused(true), without = with_unused(false);
  // With a learning rate of zero the parameters keep their initial values.
  const auto batches = random_batches(model, ragged_batches());
  const auto initial = run_lockstep(model, single_plan(model), batches,
                                    {.precision = Precision::fp64, .worker = {.seed = 3}, .learning_rate = 0})[0];
  for (const Recipe& recipe : {recipes()[1], recipes()[4]}) {  // both decay weights
    ASSERT_GT(recipe.optimizer.weight_decay, 0);
    const auto expected = run_recipe(without, single_plan(without), recipe, {}, false);
    for (const Plan& plan : plans_with_unused(model))
      for (bool one_pass : {false, true}) {
        SCOPED_TRACE(plan.name + ", " + recipe.name);
        auto actual = run_recipe(model, plan, recipe, {}, one_pass);
        int dead = 0;
        for (size_t p = 0; p < initial.names.size(); ++p) {
          if (!initial.names[p].starts_with("dead")) continue;
          ++dead;
          EXPECT_TRUE(at::equal(actual.back().parameters[p], initial.parameters[p])) << initial.names[p];
          EXPECT_FALSE(actual.back().gradients[p].defined());
        }
        EXPECT_EQ(dead, 4);
        for (Snapshot& snapshot : actual)
          for (size_t p = snapshot.names.size(); p-- > 0;) {
            if (!snapshot.names[p].starts_with("dead")) continue;
            snapshot.names.erase(snapshot.names.begin() + int64_t(p));
            snapshot.parameters.erase(snapshot.parameters.begin() + int64_t(p));
            snapshot.gradients.erase(snapshot.gradients.begin() + int64_t(p));
            snapshot.averages.erase(snapshot.averages.begin() + int64_t(p));
          }
        expect_same(actual, expected, 1e-10);
      }
  }
}

/// In every batch some workers have no samples.
TEST(UsedOnOneRank, SmallBatches) {
  const Model model = small_model("mlp");
  for (const char* text :
       {"data=3", "data=4", "data=3,sharding=zero1", "data=3,sharding=zero2", "data=3,sharding=zero3",
        "data=3,tensor=2", "data=3,pipeline=2,micro_batches=2", "data=3,micro_batches=2"})
    for (const Recipe& recipe : recipes())
      expect_equivalent(model, plan_of(text, model), recipe, {.batches = {2, 1, 2}});
}

/// All but the last layer are frozen: no other stage has anything to train or to send back.
TEST(UsedOnOneRank, OnlyTheLastStageIsTrained) {
  const Model model = small_model("mlp");
  const auto batches = random_batches(model, ragged_batches());
  LockstepOptions options{.steps = 3,
                          .precision = Precision::fp64,
                          .worker = {.seed = 3, .optimizer = recipes()[1].optimizer},
                          .clip_norm = 0.3,
                          .frozen = {"fc1.*", "fc2.*"}};
  const auto expected = run_lockstep(model, single_plan(model), batches, options);
  for (const char* text :
       {"pipeline=2,micro_batches=3", "pipeline=3,micro_batches=3,schedule=1f1b",
        "pipeline=3,micro_batches=3,schedule=zero-bubble", "pipeline=2,micro_batches=2,schedule=interleaved",
        "data=2,pipeline=2,micro_batches=2,sharding=zero1", "data=2,pipeline=2,micro_batches=2,sharding=zero3",
        "data=2,pipeline=2,micro_batches=2,compression=bf16", "pipeline=2,micro_batches=3,recompute=all"}) {
    SCOPED_TRACE(text);
    const Plan plan = plan_of(text, model);
    const bool rounds = plan.compression.kind == Compression::Kind::bf16;
    for (bool one_pass : {false, true}) {
      options.one_pass = one_pass;
      const auto actual = run_lockstep(model, plan, batches, options);
      expect_same(actual, expected, rounds ? 1e-2 : 1e-10);
      for (size_t p = 0; p < expected[0].names.size(); ++p)
        EXPECT_EQ(at::equal(actual[0].parameters[p], actual[2].parameters[p]),
                  !expected[0].names[p].starts_with("fc3"));
    }
    options.one_pass = false;
  }
}

// -- branches and skips

/// The time of each node's forward, on a clock on which a layer takes as long as its FLOPs.
class ForwardTimes : public EngineCosts {
 public:
  ForwardTimes(const Program& program, const Model& model) : program_(program), model_(model) {}

  void begin(std::span<const Execution> together, Demand& demand) override {
    for (const Execution& e : together) demand.fixed = std::max(demand.fixed, flops_of(at(e)));
  }
  void end(const Execution& e, double now) override {
    const Instruction& i = at(e);
    if (i.code != OpCode::forward || i.micro_batch != 0) return;
    for (OpId id : program_.segments[size_t(i.index)].ops)
      times[program_.ops[size_t(id)].node] = {e.rank, e.begin, now};
  }

  struct Time {
    int rank = -1;
    double begin = 0, end = 0;
  };
  std::map<NodeId, Time> times;
  double serial = 0;

 private:
  const Instruction& at(const Execution& e) const { return program_.instructions(e.rank)[size_t(e.index)]; }

  double flops_of(const Instruction& i) {
    if (i.code != OpCode::forward && i.code != OpCode::backward) return 0;
    double flops = 0;
    for (OpId id : program_.segments[size_t(i.index)].ops) {
      const NodeId node = program_.ops[size_t(id)].node;
      flops += model_.node(node).layer->forward_flops(model_.input_shapes(node));
    }
    serial += flops;
    return flops;
  }

  const Program& program_;
  const Model& model_;
};

bool overlap(double begin, double end, double other_begin, double other_end) {
  return begin < other_end && other_begin < end;
}

TEST(Branches, OfOneBlockRunAtOnce) {
  const Model model = small_model("inception");
  for (int workers : {2, 3})
    for (const char* text : {"branches", "branches,micro_batches=3"}) {
      SCOPED_TRACE(fmt::format("{} workers, {}", workers, text));
      const Plan plan = named_plan(text, model, Cluster::uniform(workers), kBatch, {});
      for (const Recipe& recipe : {recipes()[0], recipes()[1]}) expect_equivalent(model, plan, recipe, {});

      const Program program = compile(model, plan, {});
      const UnitTimeline units = unit_clock(program, model);
      double serial = 0;
      bool met = false;
      for (size_t r = 0; r < units.ranks.size(); ++r)
        for (const Stretch& a : units.ranks[r]) {
          serial += a.end - a.begin;
          for (size_t other = 0; other < r; ++other)
            for (const Stretch& b : units.ranks[other])
              met = met || (a.code == OpCode::forward && b.code == OpCode::forward && a.micro_batch == 0 &&
                            b.micro_batch == 0 && overlap(a.begin, a.end, b.begin, b.end));
        }
      EXPECT_LT(units.makespan, 0.999 * serial);
      EXPECT_TRUE(met) << "two workers compute at once";

      ForwardTimes clock(program, model);
      const double seconds = execute(program, clock, {.batches = 1}).seconds;
      EXPECT_LT(seconds, 0.999 * clock.serial);
      const auto regions = find_branches(model);
      ASSERT_EQ(regions.size(), 2u);
      for (const BranchRegion& region : regions) {
        std::set<int> at_once;  // ranks that run at the same time
        for (const auto& one : region.branches)
          for (const auto& two : region.branches)
            for (NodeId a : one)
              for (NodeId b : two) {
                const auto &s = clock.times.at(a), &t = clock.times.at(b);
                if (&one == &two || s.rank == t.rank || !overlap(s.begin, s.end, t.begin, t.end)) continue;
                at_once.insert({s.rank, t.rank});
              }
        EXPECT_EQ(at_once.size(), size_t(workers)) << "behind " << model.node(region.fork).name;
      }
    }
}

/// Every layer on any of the devices, alone and with a data axis.
TEST(Placement, OfAnyLayerOnAnyDevice) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const char* name : {"inception", "skip"}) {
    const Model model = small_model(name);
    for (const int replicas : {1, 2})
      for (const int devices : {2, 3}) {
        Plan plan = plan_of("single", model);
        plan.devices = replicas * devices;
        plan.stages.clear();
        for (int d = 0; d < devices; ++d) {
          std::vector<int>& workers = plan.stages.emplace_back();
          for (int r = 0; r < replicas; ++r) workers.push_back(r * devices + d);
        }
        for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
          plan.layers[size_t(id)] = {
              .stage = id < model.input_count() + devices ? id - model.input_count() : int(random() % size_t(devices)),
              .data = replicas};
        validate(plan, model, kBatch, "test");
        for (const Recipe& recipe : {recipes()[0], recipes()[1]}) expect_equivalent(model, plan, recipe, {});
      }
  }
}

TEST(Skips, GoStraightToTheStageThatReadsThem) {
  const Model model = small_model("skip");
  const std::set<std::string> first{"first", "relu0", "inner1", "relu1"}, last{"inner4", "join", "last", "loss"};
  for (const char* schedule : {"gpipe", "1f1b"}) {
    constexpr int kMicroBatches = 3;
    Plan plan = plan_of(fmt::format("pipeline=3,micro_batches={},schedule={}", kMicroBatches, schedule), model);
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
      plan.layers[size_t(id)].stage = first.count(model.node(id).name) ? 0 : last.count(model.node(id).name) ? 2 : 1;
    validate(plan, model, kBatch, "test");
    const Program program = compile(model, plan, {});
    // By rank, code and adjoint.
    std::map<std::tuple<int, OpCode, bool>, int> found;
    for (int rank = 0; rank < 3; ++rank)
      for (const Instruction& i : program.instructions(rank)) {
        if (i.code != OpCode::send && i.code != OpCode::receive) continue;
        const Redistribution& redistribution = program.redistributions[size_t(i.index)];
        if (program.values[size_t(redistribution.from)].node != model.find("relu0")) continue;
        EXPECT_EQ(program.values[size_t(redistribution.from)].layout.mesh.workers, std::vector<int>{0});
        EXPECT_EQ(program.values[size_t(redistribution.to)].layout.mesh.workers, std::vector<int>{2});
        ++found[{rank, i.code, i.adjoint}];
      }
    const std::map<std::tuple<int, OpCode, bool>, int> expected{{{0, OpCode::send, false}, kMicroBatches},
                                                                {{2, OpCode::receive, false}, kMicroBatches},
                                                                {{2, OpCode::send, true}, kMicroBatches},
                                                                {{0, OpCode::receive, true}, kMicroBatches}};
    EXPECT_EQ(found, expected);
    for (const Recipe& recipe : {recipes()[0], recipes()[1]}) expect_equivalent(model, plan, recipe, {});
  }
}

// -- batch norm's running statistics

/// The first batch norm's statistics after one step, for each rank that holds it.
std::vector<std::vector<at::Tensor>> running_statistics(const Model& model, const Plan& plan, BatchNormScope scope,
                                                        at::Tensor* weight, int64_t samples = kBatch) {
  const Program program = compile(model, plan, {.batch_norm = scope});
  OpId norm = -1;
  for (OpId id = OpId(program.ops.size()) - 1; id >= 0; --id)
    if (program.ops[size_t(id)].node == model.find("bn1")) norm = id;
  std::vector<std::vector<at::Tensor>> statistics(size_t(plan.devices));
  LocalWorld world(plan.devices);
  ParameterStore store(program, Precision::fp64);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.seed = 3, .batch_norm = scope});
    for (size_t p = 0; rank == 0 && p < program.parameters.size(); ++p)
      if (program.parameters[p].spec.name == "conv1.weight") *weight = store.full_parameter(int(p)).clone();
    worker.barrier();
    worker.train({.step = 0, .batch = random_batches(model, {samples})(0), .learning_rate = 0.1});
    if (const auto* buffers = worker.buffers(norm))
      for (const at::Tensor& buffer : *buffers)
        statistics[size_t(rank)].push_back(buffer.to(at::kCPU, buffer.scalar_type(), false, true));
    worker.settle();
    worker.barrier();
  });
  return statistics;
}

/// PyTorch's running mean and variance after one forward of these samples.
std::vector<at::Tensor> statistics_of(const at::Tensor& images, const at::Tensor& weight) {
  constexpr double kMomentum = 0.1;
  const at::Tensor y = at::conv2d(images, weight, {}, 1, 1);
  const at::Tensor values = y.permute({1, 0, 2, 3}).reshape({y.size(1), -1});
  return {kMomentum * values.mean(1), (1 - kMomentum) + kMomentum * values.var(1, /*unbiased=*/true)};
}

void expect_statistics(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected, bool equal) {
  ASSERT_EQ(actual.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const double difference = relative_difference(actual[i], expected[i]);
    if (equal) {
      EXPECT_LE(difference, 1e-10) << i;
    } else {
      EXPECT_GT(difference, 1e-3) << i;
    }
  }
}

TEST(DeferredNorm, TakesInTheMiniBatchAtOnce) {
  const Model model = small_model("resnet-bn");
  const at::Tensor images = random_batches(model, {kBatch})(0).load({0, kBatch})[0];
  for (const char* text :
       {"data=1", "data=1,micro_batches=4", "pipeline=2,micro_batches=4", "pipeline=2,micro_batches=4,schedule=1f1b",
        "data=1,micro_batches=4,recompute=all", "pipeline=2,micro_batches=4,recompute=all",
        "pipeline=2,micro_batches=4,recompute=except_last"}) {
    SCOPED_TRACE(text);
    at::Tensor weight;
    const Plan plan = plan_of(text, model);
    const auto deferred = running_statistics(model, plan, BatchNormScope::deferred, &weight);
    ASSERT_EQ(deferred[0].size(), 2u);
    expect_statistics(deferred[0], statistics_of(images, weight), true);
    for (size_t r = 1; r < deferred.size(); ++r) EXPECT_TRUE(deferred[r].empty()) << "bn1 is on the first stage";
    const auto local = running_statistics(model, plan, BatchNormScope::local, &weight);
    expect_statistics(local[0], statistics_of(images, weight), plan.micro_batches == 1);
  }
}

/// Data shard r has the r-th half of each micro-batch.
TEST(DeferredNorm, OfEachDataShard) {
  constexpr int64_t kMicroBatches = 2, kShards = 2, kShare = kBatch / kMicroBatches / kShards;
  const Model model = small_model("resnet-bn");
  const at::Tensor images = random_batches(model, {kBatch})(0).load({0, kBatch})[0];
  at::Tensor weight;
  const auto kept =
      running_statistics(model, plan_of("data=2,micro_batches=2", model), BatchNormScope::deferred, &weight);
  for (int64_t r = 0; r < kShards; ++r) {
    std::vector<at::Tensor> mine;
    for (int64_t k = 0; k < kMicroBatches; ++k) mine.push_back(images.narrow(0, (k * kShards + r) * kShare, kShare));
    expect_statistics(kept[size_t(r)], statistics_of(at::cat(mine), weight), true);
  }
  expect_statistics(kept[0], kept[1], false);
}

/// A batch with fewer samples than micro-batches, and shares that leave a worker without samples of the first one.
TEST(DeferredNorm, ShortBatches) {
  const Model model = small_model("resnet-bn");
  at::Tensor weight;
  for (const int64_t samples : {1, 2, 3, 5}) {
    const at::Tensor images = random_batches(model, {samples})(0).load({0, samples})[0];
    for (const char* text : {"data=1,micro_batches=4", "pipeline=2,micro_batches=4,schedule=1f1b"}) {
      SCOPED_TRACE(std::string(text) + ", samples: " + std::to_string(samples));
      const auto kept = running_statistics(model, plan_of(text, model), BatchNormScope::deferred, &weight, samples);
      expect_statistics(kept[0], statistics_of(images, weight), true);
    }
  }
  // Micro-batches of 2 and 1 samples: worker 1 has none of the first and the only one of the second.
  const at::Tensor images = random_batches(model, {3})(0).load({0, 3})[0];
  const auto kept = running_statistics(model, plan_of("data=3,micro_batches=2,speeds=1:1.01:1", model),
                                       BatchNormScope::deferred, &weight, 3);
  expect_statistics(kept[1], statistics_of(images.narrow(0, 2, 1), weight), true);
}

// -- devices of unequal speed

TEST(DeviceThreads, AreThoseOfTheirWorker) {
  LocalWorld world(2);
  std::vector<int> threads(2);
  run_worker_threads(world,
                     [&](int rank) {
                       const auto communicator = world.communicator(rank);
                       communicator->barrier();  // the threads of both workers are set
                       threads[size_t(rank)] = at::get_num_threads();
                       communicator->barrier();
                     },
                     {2, 1});
  EXPECT_EQ(threads, (std::vector<int>{2, 1}));
}

TEST(DeviceThreads, DivideTheSamples) {
  const Model model = small_model("mlp");
  RunSpec experiment;
  experiment.batch = 18;
  experiment.device_threads = {2, 1};
  const Cluster cluster = cluster_of(experiment, 2);
  EXPECT_EQ(cluster.devices[0].speed, 2 * cluster.devices[1].speed);
  const Plan plan = make_plan("data", experiment, model, 2);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const Layout rows{plan.mesh_of(id), Placement::shard(0), Placement::replicate()};
    EXPECT_EQ(rows.box_of(0, {experiment.batch, 8})[0], (Range{0, 12}));
    EXPECT_EQ(rows.box_of(1, {experiment.batch, 8})[0], (Range{12, 18}));
  }
  // The samples that the workers load.
  const Program program = compile(model, plan, {});
  const Batch all = random_batches(model, {experiment.batch})(0);
  std::vector<std::vector<Range>> loaded(2);
  LocalWorld world(2);
  ParameterStore store(program, Precision::fp32);
  run_worker_threads(
      world,
      [&](int rank) {
        Worker worker(rank, model, &program, nullptr, store, world, {.seed = 3});
        worker.train({.batch = {experiment.batch,
                                [&, rank](Range range) {
                                  loaded[size_t(rank)].push_back(range);
                                  return all.load(range);
                                }},
                      .learning_rate = 0.1});
        worker.settle();
        worker.barrier();
      },
      threads_of(experiment, 2));
  EXPECT_EQ(loaded[0], (std::vector<Range>{{0, 12}}));
  EXPECT_EQ(loaded[1], (std::vector<Range>{{12, 18}}));
  expect_equivalent(model, plan, recipes()[1], {.batches = {18, 7, 2}});
}

}  // namespace
}  // namespace trireme::test_support
