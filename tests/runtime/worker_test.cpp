// Workers: memory by category, memory limits, failures that end all workers, measurements of a step, layer profiles.
#include "runtime/worker.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>

#include "../base/expect_error.h"
#include "base/memory.h"
#include "plan/named.h"
#include "profile/layer_times.h"
#include "program/compile.h"
#include "runtime/worker_threads.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kSamples = 16, kFeatures = 64;

Model mlp() { return make_model({"mlp", {kFeatures}, 4, {{"hidden", 64}}}); }

/// A batch of ones, all of class `label`; sample `bad`, if any, has class 99.
Batch batch_of(int64_t bad = -1) {
  auto load = [bad](Range range) {
    at::Tensor target = at::ones({range.size()}, at::kLong);
    if (bad >= range.begin && bad < range.end) target[bad - range.begin] = 99;
    return std::vector<at::Tensor>{at::ones({range.size(), kFeatures}), target};
  };
  return {kSamples, load};
}

struct Case {
  Model model;
  Plan plan;
  Program program;
};

Case make(const Model& model, const std::string& degrees, int devices, CompileOptions options = {}) {
  Plan plan = named_plan(degrees, model, Cluster::uniform(devices), kSamples, {});
  Program program = compile(model, plan, options);
  return {model, std::move(plan), std::move(program)};
}

struct Ran {
  std::vector<MemoryUse> during;  ///< after the steps, before anything is freed
  std::vector<StepOutcome> outcomes;
};

Ran run(const Case& test, const Batch& batch, const OptimizerConfig& optimizer = {}, double clip = 0,
        Precision precision = Precision::fp32) {
  const auto n = size_t(test.plan.devices);
  Ran ran{std::vector<MemoryUse>(n), std::vector<StepOutcome>(n)};
  LocalWorld world(test.plan.devices);
  ParameterStore store(test.program, precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, test.model, &test.program, nullptr, store, world, {.seed = 1, .optimizer = optimizer});
    for (int64_t step = 0; step < 2; ++step)
      ran.outcomes[size_t(rank)] =
          worker.train({.step = step, .batch = batch, .learning_rate = 0.1, .clip_norm = clip, .trace = step == 1});
    worker.settle();
    worker.barrier();
    ran.during[size_t(rank)] = memory_use(rank);
    worker.barrier();
  });
  return ran;
}

int64_t of(const MemoryUse& use, MemoryCategory category) { return use.current[size_t(category)]; }

class WorkerMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    install_memory_accounting();
    for (int d = 0; d < 8; ++d) reset_memory_peak(d);
  }
  void TearDown() override {
    for (int d = 0; d < 8; ++d) {
      set_memory_limit(d, 0);
      EXPECT_EQ(memory_use(d).total(), 0) << "device " << d << " still holds " << describe_memory(memory_use(d));
    }
  }
};

TEST_F(WorkerMemory, EqualsTheFormula) {
  OptimizerConfig momentum, adam;
  momentum.momentum = 0.9;
  adam.kind = &kAdam;
  const Model model = mlp();
  for (const auto& [degrees, devices] : std::vector<std::pair<std::string, int>>{
           {"data=1", 1}, {"data=3", 3}, {"tensor=2", 2}, {"data=2,tensor=2", 4}, {"pipeline=2,micro_batches=2", 2}})
    for (const OptimizerConfig& optimizer : {OptimizerConfig{}, momentum, adam})
      for (double clip : {0.0, 1.0}) {
        SCOPED_TRACE(degrees + " clip " + std::to_string(clip));
        const Case test = make(model, degrees, devices, {.clip_gradients = clip > 0});
        const Ran ran = run(test, batch_of(), optimizer, clip);
        for (int d = 0; d < devices; ++d) {
          int64_t slices = 0, flats = 0;
          for (const Bucket& bucket : test.program.buckets) {
            slices += bucket.slice_of(d).size();
            if (std::find(bucket.contributors.begin(), bucket.contributors.end(), d) != bucket.contributors.end())
              flats += bucket.elements;
          }
          const MemoryUse& use = ran.during[size_t(d)];
          EXPECT_EQ(of(use, MemoryCategory::weights), 4 * slices);
          EXPECT_EQ(of(use, MemoryCategory::gradients), 4 * (flats + (clip > 0 ? slices : 0)));
          EXPECT_EQ(of(use, MemoryCategory::optimizer), 4 * slices * optimizer_state_count(optimizer));
          EXPECT_GT(use.at_peak[size_t(MemoryCategory::activations)], 0);
          EXPECT_GE(use.peak, use.total());
        }
      }
}

TEST_F(WorkerMemory, RunningStatisticsAreBuffers) {
  const Model model = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  const Case test = make(model, "data", 2);
  const Batch images{
      kSamples, [](Range range) {
        return std::vector<at::Tensor>{at::ones({range.size(), 3, 8, 8}), at::zeros({range.size()}, at::kLong)};
      }};
  int64_t elements = 0;
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const BufferSpec& spec : node.layer->buffers()) elements += element_count(spec.shape);
  EXPECT_EQ(of(run(test, images).during[1], MemoryCategory::buffers), 4 * elements);
}

/// The tensor axis divides weights, the pipeline divides activations.
TEST_F(WorkerMemory, PlansDivideIt) {
  const Model model = mlp();
  const auto single = run(make(model, "data=1", 1), batch_of()).during[0];
  const auto tensor = run(make(model, "tensor=2", 2), batch_of()).during[0];
  EXPECT_LT(of(tensor, MemoryCategory::weights), 0.6 * double(of(single, MemoryCategory::weights)));
  EXPECT_LT(of(tensor, MemoryCategory::gradients), 0.6 * double(of(single, MemoryCategory::gradients)));
}

TEST_F(WorkerMemory, LimitInTheStore) {
  const Case test = make(mlp(), "data", 2);
  set_memory_limit(1, 1000);
  try {
    run(test, batch_of());
    FAIL() << "it fits";
  } catch (const MemoryLimitError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("device 1"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1000 B"));
  }
}

/// One worker reaches the limit in the middle of a step; the others wait for it and are woken.
TEST_F(WorkerMemory, LimitDuringAStepEndsAllWorkers) {
  for (const char* degrees : {"data=4", "tensor=4", "pipeline=4,micro_batches=4", "data=2,tensor=2"}) {
    SCOPED_TRACE(degrees);
    const Case test = make(mlp(), degrees, 4);
    const MemoryUse use = run(test, batch_of()).during[2];
    set_memory_limit(2, of(use, MemoryCategory::weights) + of(use, MemoryCategory::gradients) + 256);
    const auto begin = std::chrono::steady_clock::now();
    try {
      run(test, batch_of());
      ADD_FAILURE() << "it fits";
    } catch (const MemoryLimitError& error) {
      EXPECT_EQ(int(error.blame()), int(Blame::run));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("device 2"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("weights"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("gradients"));
    }
    set_memory_limit(2, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  }
}

/// A bad sample of one worker ends all workers within a second, and the error reports the cause, not "another worker
/// failed".
TEST_F(WorkerMemory, AFailureEndsAllAndIsTheOneReported) {
  for (const char* degrees :
       {"data=4", "tensor=4", "pipeline=4,micro_batches=4", "data=2,pipeline=2,micro_batches=3", "data=2,tensor=2"})
    for (int round = 0; round < 5; ++round) {
      SCOPED_TRACE(degrees);
      const Case test = make(mlp(), degrees, 4);
      const auto begin = std::chrono::steady_clock::now();
      expect_error(Blame::user, {"loss", "99"}, [&] { run(test, batch_of(13)); });
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    }
}

TEST_F(WorkerMemory, AFailingLoaderEndsAll) {
  const Case test = make(mlp(), "data=2,pipeline=2,micro_batches=2", 4);
  const Batch good = batch_of();
  const Batch bad{kSamples, [&](Range range) {
                    if (range.begin >= 4) throw std::runtime_error("disk on fire");
                    return good.load(range);
                  }};
  try {
    run(test, bad);
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "disk on fire");
  }
}

TEST_F(WorkerMemory, AbortFromOutsideEndsAll) {
  const Case test = make(mlp(), "pipeline=2,micro_batches=2", 2);
  LocalWorld world(2);
  ParameterStore store(test.program, Precision::fp32);
  std::atomic<int64_t> steps{0};
  std::thread killer([&] {
    while (steps < 20) std::this_thread::yield();
    world.abort("interrupted");
  });
  const Batch batch = batch_of();
  expect_error(Blame::run, {"interrupted"}, [&] {
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, test.model, &test.program, nullptr, store, world, {});
      for (int64_t step = 0;; ++step, ++steps) worker.train({.step = step, .batch = batch, .learning_rate = 0.01});
    });
  });
  killer.join();
}

TEST_F(WorkerMemory, OutcomeOfAStep) {
  const Case test = make(mlp(), "data=2,pipeline=2,micro_batches=2", 4);
  const Ran ran = run(test, batch_of());
  for (int rank = 0; rank < 4; ++rank) {
    const StepOutcome& o = ran.outcomes[size_t(rank)];
    const double wall = o.end - o.begin;
    EXPECT_GT(wall, 0);
    EXPECT_GE(o.compute_seconds, 0);
    EXPECT_GE(o.exposed_seconds, 0);
    EXPECT_GE(o.waiting_seconds, 0);
    EXPECT_NEAR(o.compute_seconds + o.exposed_seconds + o.waiting_seconds, wall, 1e-6);
    EXPECT_LE(o.hidden_seconds, o.compute_seconds + 1e-9);
    EXPECT_EQ(o.loss_sum > 0, rank >= 2) << "the last stage has the loss";
    const auto waits =
        std::count_if(o.events.begin(), o.events.end(), [](const Event& e) { return e.kind == EventKind::wait; });
    ASSERT_EQ(o.events.size() - size_t(waits), test.program.instructions(rank).size());
    double end = o.begin;
    for (const Event& event : o.events) {
      EXPECT_EQ(event.rank, rank);
      EXPECT_GE(event.begin, end);
      EXPECT_GE(event.end, event.begin);
      end = event.end;
      EXPECT_FALSE(event.name.empty());
    }
  }
}

/// An activation and its gradient at the boundary, 4 bytes per element. For data parallelism, two reduced buckets by
/// the formulas of reduce-scatter and all-gather.
TEST_F(WorkerMemory, BytesSent) {
  const Case pipeline = make(mlp(), "pipeline=2,micro_batches=4", 2);
  const Ran piped = run(pipeline, batch_of());
  ASSERT_EQ(pipeline.program.redistributions.size(), 1u);
  const int64_t boundary =
      4 * kSamples *
      element_count(pipeline.model.node(pipeline.program.values[size_t(pipeline.program.redistributions[0].from)].node)
                        .sample_shape);
  EXPECT_EQ(piped.outcomes[0].bytes_sent, boundary);
  EXPECT_EQ(piped.outcomes[1].bytes_sent, boundary);

  const Case data = make(mlp(), "data", 2);
  int64_t elements = 0;
  for (const Bucket& bucket : data.program.buckets) elements += bucket.elements;
  EXPECT_EQ(run(data, batch_of()).outcomes[0].bytes_sent, 2 * 4 * elements / 2);
}

/// Layers compute in bfloat16, with 8 bits; targets and losses keep float's 24 bits.
TEST_F(WorkerMemory, TargetsAndLossesAreFloatUnderBf16) {
  constexpr int64_t kValues = 2;
  const Model model = make_model({"mlp", {kFeatures}, kValues, {{"hidden", 8}}, LearningTask::regression, {kValues}});
  // 10 + k / 1024; in bfloat16 the numbers near 10 are 1 / 16 apart.
  const at::Tensor targets = at::arange(kSamples * kValues, at::kFloat).view({kSamples, kValues}).div(1024).add(10);
  const Batch batch{
      kSamples, [&](Range range) {
        return std::vector<at::Tensor>{at::ones({range.size(), kFeatures}), targets.slice(0, range.begin, range.end)};
      }};
  for (const char* degrees : {"data=2", "tensor=2", "pipeline=2,micro_batches=2"}) {
    SCOPED_TRACE(degrees);
    const Ran ran = run(make(model, degrees, 2, {.mixed_precision = true}), batch, {}, 0, Precision::bf16);
    std::map<std::string, double> sums;
    double loss = 0;
    for (const StepOutcome& outcome : ran.outcomes) {
      loss += outcome.loss_sum;
      for (const auto& [name, value] : outcome.metrics) sums[name] += value;
    }
    for (int64_t j = 0; j < kValues; ++j)
      EXPECT_EQ(sums[fmt::format("target.{}", j)], targets.select(1, j).sum(at::kDouble).item<double>()) << j;
    EXPECT_NEAR(loss, sums["squared_error"] / kValues, 1e-6 * loss);
  }
}

TEST(Profile, SecondsOfEveryLayer) {
  const Model model = make_model({"mnist-convnet", {1, 28, 28}, 10, {}});
  const auto seconds = profile_layers(model, Precision::fp32, 32, 1);
  ASSERT_EQ(seconds.size(), model.nodes().size());
  for (NodeId id = 0; id < NodeId(seconds.size()); ++id) {
    if (id < model.input_count()) {
      EXPECT_EQ(seconds[size_t(id)], 0);
    } else {
      EXPECT_GT(seconds[size_t(id)], 0) << model.node(id).name;
    }
    EXPECT_TRUE(std::isfinite(seconds[size_t(id)]));
  }
  EXPECT_GT(seconds[size_t(model.find("conv2"))], seconds[size_t(model.find("fc2"))]);
}

/// No embedding reads the data directly: a slice of the tokens comes between.
TEST(Profile, IsToldOfTokens) {
  const Model model = make_model({.name = "gnmt",
                                  .sample_shape = {6},
                                  .classes = 9,
                                  .options = {{"layers", 2}, {"width", 4}},
                                  .task = LearningTask::translation,
                                  .target_shape = {3},
                                  .vocabulary = 9});
  for (const double seconds : profile_layers(model, Precision::fp32, 2, 1, /*tokens=*/true))
    EXPECT_TRUE(std::isfinite(seconds));
}

}  // namespace
}  // namespace trireme
