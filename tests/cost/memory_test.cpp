// Compares predicted memory peaks with those of real workers; the probe measures the bytes of layers.
#include "cost/memory.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <sstream>
#include <thread>

#include "comm/backends.h"
#include "comm/message_buffers.h"
#include "plan/named.h"
#include "probed_costs.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr double kTolerance = 0.05;
constexpr int64_t kClasses = 10;

struct Case {
  std::string model;
  std::string strategy;
  int64_t batch = 16;
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};
  double clip_norm = 0;
  bool private_replicas = false;
  int64_t bucket_bytes = 64 << 10;
};

Model model_of(const std::string& name) {
  if (name == "mlp") return make_model({name, {64}, kClasses, {{"hidden", 256}, {"depth", 4}}});
  if (name == "wide-mlp") return make_model({"mlp", {256}, kClasses, {{"hidden", 512}, {"depth", 4}}});
  if (name == "mnist-convnet") return make_model({name, {1, 28, 28}, kClasses, {}});
  if (name == "resnet") return make_model({"cifar-resnet18", {3, 16, 16}, kClasses, {{"width", 16}}});
  if (name == "unet")
    return make_model(
        {name, {3, 32, 32}, kClasses, {{"width", 8}, {"depth", 2}}, LearningTask::segmentation, {32, 32}});
  if (name == "vit")
    return make_model({"vit-tiny",
                       {3, 32, 32},
                       kClasses,
                       {{"layers", 4}, {"patch", 4}, {"width", 64}, {"heads", 4}, {"hidden", 256}}});
  if (name == "lstm-lm") return make_model({name, {12}, kClasses, {{"width", 64}, {"probability", 0.2}}});
  if (name == "inception") return make_model({name, {3, 16, 16}, kClasses, {{"width", 32}}});
  if (name == "tied-mlp") return make_model({name, {64}, kClasses, {{"hidden", 256}}});
  return make_model({name, {32}, kClasses, {{"layers", 4}, {"width", 64}, {"heads", 4}, {"probability", 0.1}}});
}

bool reads_tokens(const Model& model) {
  const auto& readers = model.consumers(0);
  return std::any_of(readers.begin(), readers.end(),
                     [&](NodeId id) { return model.node(id).layer->kind() == "embedding"; });
}

Batch batch_for(const Model& model, int64_t samples) {
  std::vector<Shape> shapes;
  for (NodeId id = 0; id < model.input_count(); ++id) shapes.push_back(model.node(id).sample_shape);
  return {samples, [shapes, tokens = reads_tokens(model)](Range range) {
            std::vector<at::Tensor> inputs;
            for (size_t i = 0; i < shapes.size(); ++i) {
              Shape shape = shapes[i];
              shape.insert(shape.begin(), range.size());
              const bool is_number = i == 0 && !tokens;
              inputs.push_back(at::ones(shape, at::TensorOptions().dtype(is_number ? at::kFloat : at::kLong)));
            }
            return inputs;
          }};
}

int devices_of(const std::string& strategy) {
  int devices = 1;
  std::istringstream items(strategy);
  for (std::string item; std::getline(items, item, ',');)
    for (const char* axis : {"data=", "tensor=", "pipeline="})
      if (item.starts_with(axis)) devices *= std::stoi(item.substr(item.find('=') + 1));
  return devices;
}

struct Compiled {
  Model model;
  Plan plan;
  Program program;
};

Compiled compiled(const Case& c) {
  Model model = model_of(c.model);
  Plan plan = named_plan(c.strategy, model, Cluster::uniform(devices_of(c.strategy)), c.batch, {});
  Program program = compile(model, plan,
                            {.clip_gradients = c.clip_norm > 0,
                             .layer_norms = c.optimizer.is_layerwise(),
                             .mixed_precision = c.precision == Precision::bf16,
                             .bucket_bytes = c.bucket_bytes,
                             .first_bucket_bytes = c.bucket_bytes,
                             .private_replicas = c.private_replicas});
  return {std::move(model), std::move(plan), std::move(program)};
}

/// Memory use by rank, from the workers' construction to the last of several steps.
std::vector<MemoryUse> measured(const Case& c, const Compiled& it) {
  install_memory_accounting();
  for (int rank = 0; rank < it.plan.devices; ++rank) reset_memory_peak(rank);
  std::vector<MemoryUse> uses(size_t(it.plan.devices));
  LocalWorld world(it.plan.devices);
  ParameterStore store(it.program, c.precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, it.model, &it.program, nullptr, store, world, {.seed = 1, .optimizer = c.optimizer});
    for (int step = 0; step < it.program.greatest_lag + 3; ++step)
      worker.train(
          {.step = step, .batch = batch_for(it.model, c.batch), .learning_rate = 0.01, .clip_norm = c.clip_norm});
    worker.drain();
    worker.settle();
    uses[size_t(rank)] = memory_use(rank);
    worker.barrier();
  });
  return uses;
}

/// The same for ranks that talk as processes do. `late`: seconds by which the last rank begins each step later.
std::vector<MemoryUse> measured_between_processes(const Case& c, const Compiled& it, double late = 0) {
  install_memory_accounting();
  for (int rank = 0; rank < it.plan.devices; ++rank) reset_memory_peak(rank);
  std::vector<MemoryUse> uses(size_t(it.plan.devices));
  const auto connect = [](const WorldOptions& options) {
    WorldOptions own = options;
    own.device = options.rank;
    return gloo_communicator(own);
  };
  const auto body = [&](Communicator& world) {
    const int rank = world.rank();
    const DeviceScope device(rank);
    std::vector<int> all(size_t(world.size()));
    std::iota(all.begin(), all.end(), 0);
    Worker worker(rank, it.model, &it.program, nullptr, c.precision, world.group(all),
                  {.seed = 1, .optimizer = c.optimizer});
    for (int step = 0; step < it.program.greatest_lag + 3; ++step) {
      world.barrier();
      if (rank == world.size() - 1) std::this_thread::sleep_for(std::chrono::duration<double>(late));
      worker.train({.step = step, .batch = batch_for(it.model, c.batch), .learning_rate = 0.01});
    }
    worker.drain();
    worker.settle();
    uses[size_t(rank)] = memory_use(rank);
    world.barrier();
  };
  test_support::run_gloo_ranks(it.plan.devices, body, 60, connect);
  return uses;
}

std::vector<MemoryUse> predicted(const Case& c, const Compiled& it, const LayerCosts& layers, Receivers receivers) {
  std::vector<int> ranks(size_t(it.plan.devices));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto data = reads_tokens(it.model) ? at::kLong : at::kFloat;
  return predict_memory(it.program, it.model, layers,
                        {.batch = c.batch,
                         .precision = c.precision,
                         .optimizer = c.optimizer,
                         .input_types = {data, at::kLong},
                         .receivers = receivers},
                        ranks);
}

std::vector<MemoryUse> predicted_between_processes(const Case& c, const Compiled& it, const LayerCosts& layers,
                                                   std::vector<std::vector<MessageArrival>> arrivals = {}) {
  std::vector<int> ranks(size_t(it.plan.devices));
  std::iota(ranks.begin(), ranks.end(), 0);
  return predict_memory(it.program, it.model, layers,
                        {.batch = c.batch,
                         .optimizer = c.optimizer,
                         .input_types = {at::kFloat, at::kLong},
                         .sums_beside = true,
                         .messages = MessageBuffers{.inline_bytes = 16 << 10, .posted = 2, .posted_bytes = 4 << 20},
                         .arrivals = std::move(arrivals)},
                        ranks);
}

std::string parts(const MemoryUse& use) {
  std::string text = fmt::format("{}:", use.peak);
  for (size_t k = 0; k < kMemoryCategories; ++k)
    text += fmt::format(" {} {}", name_of(MemoryCategory(k)), use.at_peak[k]);
  return text;
}

/// The peak lies between the least and the most that the order of instructions allows. If these two agree, all parts of
/// the peak must agree too.
void expect_predicted(const Case& c) {
  SCOPED_TRACE(fmt::format("{} under {}, batch {}, {}", c.model, c.strategy, c.batch, name_of(c.precision)));
  const Compiled it = compiled(c);
  const test_support::ProbedMemory layers(it.model, {.precision = c.precision});
  const auto least = predicted(c, it, layers, Receivers::at_once), most = predicted(c, it, layers, Receivers::latest);
  const auto expected = predicted(c, it, layers, Receivers::one_late), actual = measured(c, it);
  for (size_t rank = 0; rank < actual.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}: measured {}; predicted {}", rank, parts(actual[rank]), parts(expected[rank])));
    const double peak = double(actual[rank].peak);
    EXPECT_LE(least[rank].peak, expected[rank].peak);
    EXPECT_LE(expected[rank].peak, most[rank].peak);
    EXPECT_GE(peak, (1 - kTolerance) * double(least[rank].peak));
    EXPECT_LE(peak, (1 + kTolerance) * double(most[rank].peak));
    if (double(most[rank].peak) > (1 + kTolerance) * double(least[rank].peak)) continue;
    EXPECT_NEAR(double(expected[rank].peak), peak, kTolerance * peak);
    for (size_t k = 0; k < kMemoryCategories; ++k)
      EXPECT_NEAR(double(expected[rank].at_peak[k]), double(actual[rank].at_peak[k]), kTolerance * peak)
          << name_of(MemoryCategory(k));
  }
}

const char* const kModels[] = {"mlp", "mnist-convnet", "resnet",    "unet",
                               "vit", "lstm-lm",       "inception", "transformer-lm"};
const char* const kFew[] = {"mlp", "mnist-convnet", "vit", "lstm-lm", "inception"};

OptimizerConfig momentum() {
  OptimizerConfig config;
  config.momentum = 0.9;
  return config;
}

OptimizerConfig adam() {
  OptimizerConfig config;
  config.kind = &kAdam;
  return config;
}

TEST(MemoryPrediction, OneDevice) {
  for (const char* model : kModels) {
    expect_predicted({model, "single"});
    expect_predicted({model, "single", 16, Precision::fp32, momentum()});
    expect_predicted({model, "single", 16, Precision::bf16, adam(), 1.0});
    expect_predicted({model, "data=1,micro_batches=3", 16, Precision::fp32, adam()});
  }
}

TEST(MemoryPrediction, Data) {
  for (const char* model : kModels) {
    expect_predicted({model, "data=2"});
    expect_predicted({model, "data=3", 16, Precision::bf16, momentum()});
    expect_predicted({model, "data=2,speeds=3:1"});
  }
  OptimizerConfig averaging = adam();
  averaging.ema = 0.9;
  expect_predicted({"resnet", "data=2", 16, Precision::fp32, averaging});
}

TEST(MemoryPrediction, Tensor) {
  for (const char* model : kModels) expect_predicted({model, "tensor=2", 16, Precision::fp32, momentum()});
  expect_predicted({"mlp", "tensor=4"});
  expect_predicted({"vit", "tensor=2", 16, Precision::bf16});
  expect_predicted({"resnet", "tensor=2,split=height"});
  expect_predicted({"transformer-lm", "tensor=2,split=sequence"});
}

TEST(MemoryPrediction, Pipelines) {
  for (const char* model : kFew)
    for (const char* strategy :
         {"pipeline=2,micro_batches=4", "pipeline=3,micro_batches=4,schedule=1f1b",
          "pipeline=2,chunks=2,schedule=interleaved,micro_batches=4", "pipeline=2,schedule=zero-bubble,micro_batches=4",
          "pipeline=2,schedule=zero-bubble-h2,micro_batches=4", "pipeline=2,schedule=zero-bubble-2p,micro_batches=4",
          "pipeline=2,schedule=zero-bubble-v,micro_batches=4", "pipeline=3,schedule=pipedream,micro_batches=1",
          "pipeline=2,schedule=2bw,micro_batches=4"})
      expect_predicted({model, strategy, 16, Precision::fp32, momentum()});
}

TEST(MemoryPrediction, Recompute) {
  for (const char* model : kFew)
    for (const char* strategy :
         {"data=1,recompute=all", "data=1,micro_batches=3,recompute=except_last",
          "pipeline=2,micro_batches=4,schedule=1f1b,recompute=all", "pipeline=2,micro_batches=4,recompute=except_last"})
      expect_predicted({model, strategy});
}

TEST(MemoryPrediction, RecomputeWithCommunication) {
  const std::string again = "recompute_communication=1";
  for (const std::string& strategy :
       {"tensor=2,recompute=all," + again, "tensor=2,recompute=selective," + again,
        "tensor=2,pipeline=2,micro_batches=3,schedule=1f1b,recompute=except_last," + again})
    for (const char* model : {"vit", "transformer-lm"}) expect_predicted({model, strategy});
  for (const char* model : {"vit", "transformer-lm", "mlp"})
    expect_predicted({model, "tensor=2,pipeline=2,micro_batches=2,schedule=1f1b,scatter_messages=1"});
  for (const char* recompute : {"selective", "all"})
    expect_predicted({"transformer-lm", fmt::format("tensor=2,split=sequence,recompute={},{}", recompute, again)});
}

TEST(MemoryPrediction, Sharding) {
  for (const char* model : kFew)
    for (const char* strategy : {"data=2,sharding=zero1", "data=2,sharding=zero2", "data=3,sharding=zero3"})
      for (Precision precision : {Precision::fp32, Precision::bf16})
        expect_predicted({model, strategy, 12, precision, adam()});
  for (const char* strategy :
       {"data=2,micro_batches=3,sharding=zero2", "data=2,pipeline=2,micro_batches=3,schedule=1f1b,sharding=zero3"})
    expect_predicted({"mlp", strategy, 12, Precision::fp32, adam(), 1.0});
  expect_predicted({"tied-mlp", "data=2,pipeline=2,micro_batches=2,sharding=zero3", 12});
  for (const char* sharding : {"zero1", "zero2", "zero3"})
    for (const char* compression : {"none", "bf16"})
      expect_predicted({"mlp", fmt::format("data=4,sharding={},sharding_group=2,compression={}", sharding, compression),
                        12, Precision::fp32, adam()});
}

TEST(MemoryPrediction, PrivateReplicas) {
  for (const char* strategy :
       {"data=2", "data=2,compression=bf16", "data=2,compression=powersgd", "tensor=2",
        "data=2,sharding=zero2,compression=bf16", "pipeline=3,schedule=pipedream,micro_batches=1"})
    for (const char* model : {"mlp", "mnist-convnet", "tied-mlp"})
      expect_predicted({model, strategy, 12, Precision::fp32, momentum(), 0, true});
}

TEST(MemoryPrediction, StoredGradientsInBfloat16) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero3"})
    for (const char* degrees : {"data=2", "data=2,micro_batches=2", "micro_batches=2"})
      for (const char* model : {"mlp", "tied-mlp"})
        expect_predicted({model, fmt::format("{},sharding={},compression=bf16-stored", degrees, sharding), 12,
                          Precision::bf16, momentum(), 0, true});
}

TEST(MemoryPrediction, Hybrids) {
  for (const char* model : kFew)
    for (const char* strategy : {"data=2,tensor=2", "data=2,pipeline=2,micro_batches=4,schedule=1f1b"})
      expect_predicted({model, strategy, 16, Precision::fp32, momentum()});
  expect_predicted({"mlp", "tensor=2,pipeline=2,micro_batches=3"});
}

/// Summands that a rank receives before it adds them, receives that are begun ahead, and slices of weights that arrive.
TEST(MemoryPrediction, BetweenProcesses) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  for (const char* strategy :
       {"data=2", "data=4", "data=2,sharding=zero1", "data=2,sharding=zero2", "data=2,sharding=zero3",
        "data=4,sharding=zero3", "tensor=2", "data=4,sharding=zero3,sharding_group=2", "pipeline=2,micro_batches=1"}) {
    SCOPED_TRACE(strategy);
    const Case c{"wide-mlp", strategy, 16, Precision::fp32, momentum(), 0, true, 1 << 20};
    const Compiled it = compiled(c);
    const test_support::ProbedMemory layers(it.model, {});
    const auto expected = predicted_between_processes(c, it, layers);
    const auto actual = measured_between_processes(c, it);
    for (size_t rank = 0; rank < actual.size(); ++rank) {
      SCOPED_TRACE(fmt::format("rank {}: measured {}; predicted {}", rank, parts(actual[rank]), parts(expected[rank])));
      const double peak = double(actual[rank].peak);
      const int64_t summands = expected[rank].at_peak[size_t(MemoryCategory::buffers)];
      // a holder that is a gather ahead has sent the slice of one more bucket
      const int64_t ahead = it.program.optimizer_sharding == OptimizerSharding::zero3 ? c.bucket_bytes : 0;
      EXPECT_GE(double(expected[rank].peak + ahead), (1 - kTolerance) * peak);
      // the sum that is assumed to run at the peak may have ended before
      EXPECT_LE(double(expected[rank].peak - summands), (1 + kTolerance) * peak);
    }
  }
}

/// The last stage begins when the first stage waits for its gradients.
TEST(MemoryPrediction, MessagesThatWaitForTheirReceiver) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  const Case c{"wide-mlp", "pipeline=2,micro_batches=4,schedule=1f1b", 1024, Precision::fp32, momentum(), 0, true};
  const Compiled it = compiled(c);
  const test_support::ProbedMemory layers(it.model, {});
  std::vector<std::vector<MessageArrival>> arrivals(2);
  for (const Instruction& i : it.program.instructions(1))
    if (description_of(i.code).role == RedistributionRole::receive && i.micro_batch < 2)
      arrivals[1].push_back({.redistribution = i.index, .adjoint = i.adjoint, .micro_batch = i.micro_batch});
  ASSERT_EQ(arrivals[1].size(), 2);
  const MemoryUse prompt = predicted_between_processes(c, it, layers)[1],
                  late = predicted_between_processes(c, it, layers, arrivals)[1],
                  actual = measured_between_processes(c, it, 0.3)[1];
  SCOPED_TRACE(fmt::format("measured {}; predicted {}", parts(actual), parts(late)));
  EXPECT_EQ(late.peak, prompt.peak + (512 << 10));  // one message
  EXPECT_NEAR(double(late.peak), double(actual.peak), kTolerance * double(actual.peak));
}

/// Predicting one rank alone gives the same as predicting all ranks, which treats equal ranks together.
TEST(MemoryPrediction, OfARankAlone) {
  for (const Case& c : {Case{"mlp", "data=2,pipeline=2,micro_batches=3"},
                        {"mlp", "data=3,sharding=zero3"},
                        {"mlp", "data=4,sharding=zero2,sharding_group=2"},
                        {"vit", "data=2,tensor=2", 10},
                        {"mlp", "data=3,speeds=3:1:1"}}) {
    SCOPED_TRACE(c.strategy);
    const Compiled it = compiled(c);
    const test_support::ProbedMemory layers(it.model, {.precision = c.precision});
    const auto all = predicted(c, it, layers, Receivers::one_late);
    for (int rank = 0; rank < it.plan.devices; ++rank) {
      const MemoryUse alone =
          predict_memory(it.program, it.model, layers, {.batch = c.batch}, std::vector{rank}).front();
      EXPECT_EQ(alone.peak, all[size_t(rank)].peak) << rank;
      EXPECT_EQ(alone.at_peak, all[size_t(rank)].at_peak) << rank;
    }
  }
}

}  // namespace
}  // namespace trireme
