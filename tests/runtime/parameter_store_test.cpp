// Initial values depend on the model only, not on the plan; shards are slices of the full tensor.
#include "runtime/replicas/parameter_store.h"
#include "runtime/replicas/flat_shard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "../support/set_parameter.h"
#include "base/memory.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/precision.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using Values = std::map<std::string, at::Tensor>;

/// A store with the workers that share it, without a run.
struct Shared {
  LocalWorld world;
  ParameterStore store;
  std::vector<std::unique_ptr<Replicas>> workers;
  Shared(const Program& program, Precision precision) : world(program.devices), store(program, precision) {
    for (int rank = 0; rank < program.devices; ++rank)
      workers.push_back(shared_replicas(rank, program, store, world, {}));
  }
};

Values initial(const Model& model, const std::string& degrees, int devices, Precision precision, uint64_t seed = 4) {
  const Program program = compile(model, named_plan(degrees, model, Cluster::uniform(devices), 16, {}),
                                  {.mixed_precision = precision == Precision::bf16});
  Shared shared(program, precision);
  for (auto& worker : shared.workers) worker->initialize(seed);
  const ParameterStore& store = shared.store;
  Values values;
  for (int p = 0; p < int(program.parameters.size()); ++p)
    values[program.parameters[size_t(p)].spec.name] = store.full_parameter(p);
  return values;
}

TEST(ParameterStore, InitialValuesDoNotDependOnThePlan) {
  const Model models[] = {make_model({"mnist-convnet", {1, 16, 16}, 4, {}}),
                          make_model({"tied-mlp", {6}, 4, {{"hidden", 8}}}),
                          make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}})};
  for (const Model& model : models)
    for (Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16}) {
      const Values expected = initial(model, "single", 1, precision);
      EXPECT_EQ(expected.size(), model.parameters().size());
      for (const char* degrees : {"data=4", "tensor=4", "data=2,tensor=2", "pipeline=4,micro_batches=2",
                                  "tensor=2,pipeline=2,micro_batches=2"}) {
        SCOPED_TRACE(model.name() + " " + degrees);
        for (const auto& [name, value] : initial(model, degrees, 4, precision))
          EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
      }
    }
}

TEST(ParameterStore, FloatIsTheRoundedDouble) {
  const Model model = make_model({"mnist-convnet", {1, 16, 16}, 4, {}});
  const Values wide = initial(model, "single", 1, Precision::fp64);
  for (const auto& [name, value] : initial(model, "single", 1, Precision::fp32))
    EXPECT_TRUE(at::equal(value, wide.at(name).to(at::kFloat))) << name;
}

TEST(ParameterStore, SeedAndNameDecide) {
  const Model model = make_model({"mlp", {8}, 8, {{"hidden", 8}}});
  const Values a = initial(model, "single", 1, Precision::fp64), b = initial(model, "single", 1, Precision::fp64, 5);
  EXPECT_FALSE(at::equal(a.at("fc1.weight"), b.at("fc1.weight")));
  EXPECT_FALSE(at::equal(a.at("fc1.weight"), a.at("fc2.weight")));
}

/// Moments of PyTorch's default distributions: uniform in ±1/sqrt(fan in); He's normal with variance 2 / fan out; norms
/// 1 and 0.
TEST(ParameterStore, Distributions) {
  const Values net =
      initial(make_model({"cifar-resnet18", {3, 8, 8}, 10, {{"width", 16}}}), "single", 1, Precision::fp64);
  const at::Tensor& conv = net.at("layer3.0.conv2.weight");  // 64 x 64 x 3 x 3: 36864 values
  EXPECT_NEAR(conv.mean().item<double>(), 0, 4 * std::sqrt(2.0 / (64 * 9) / 36864));
  EXPECT_NEAR(conv.var().item<double>(), 2.0 / (64 * 9), 0.05 * 2.0 / (64 * 9));
  EXPECT_TRUE(at::equal(net.at("bn1.weight"), at::ones({16}, at::kDouble)));
  EXPECT_TRUE(at::equal(net.at("bn1.bias"), at::zeros({16}, at::kDouble)));
  const Values mlp = initial(make_model({"mlp", {64}, 10, {{"hidden", 256}}}), "single", 1, Precision::fp64);
  const at::Tensor& linear = mlp.at("fc1.weight");  // 16384 values, bound 1/8
  EXPECT_LE(linear.abs().max().item<double>(), 1.0 / 8);
  EXPECT_GT(linear.max().item<double>(), 0.99 / 8);
  EXPECT_LT(linear.min().item<double>(), -0.99 / 8);
  EXPECT_NEAR(linear.mean().item<double>(), 0, 4 / 8.0 / std::sqrt(3.0 * 16384));
  EXPECT_NEAR(linear.var().item<double>(), 1.0 / 64 / 3, 0.05 / 64 / 3);
}

TEST(ParameterStore, SetAndReadBack) {
  const Model model = make_model({"mnist-convnet", {1, 16, 16}, 4, {}});
  const Program program =
      compile(model, named_plan("data=2,tensor=2", model, Cluster::uniform(4), 16, {}), {.mixed_precision = true});
  Shared shared(program, Precision::bf16);
  ParameterStore& store = shared.store;
  for (int p = 0; p < int(program.parameters.size()); ++p) {
    const at::Tensor full = at::randn(program.parameters[size_t(p)].spec.shape);
    test_support::set_parameter(store, program, p, full);
    EXPECT_TRUE(at::equal(store.full_parameter(p), full));
    EXPECT_FALSE(store.full_gradient(p).defined());
  }
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    EXPECT_TRUE(at::equal(store.bucket(b).compute[0].to(at::kFloat),
                          store.bucket(b).master[0].to(at::kBFloat16).to(at::kFloat)));
}

TEST(ParameterStore, ConvolutionsLieInChannelsLastOrder) {
  const Model model = make_model({"mnist-convnet", {1, 16, 16}, 4, {}});
  const Program program = compile(model, named_plan("single", model, Cluster::uniform(1), 16, {}), {});
  ParameterStore store(program, Precision::fp32);
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    for (const ParameterShard& shard : program.buckets[size_t(b)].shards)
      EXPECT_TRUE(
          view_of_shard(store.bucket(b).master[0], shard)
              .is_contiguous(shard.box.size() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
}

int64_t held(int device) { return memory_use(device).total(); }

TEST(ParameterStore, ChargesEachHolderItsSliceAndGivesItBack) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}}});
  const Program program =
      compile(model, named_plan("data", model, Cluster::uniform(2), 16, {}), {.keep_gradients = true});
  {
    ParameterStore store(program, Precision::fp32);
    int64_t elements = 0;
    for (const Bucket& bucket : program.buckets) elements += bucket.elements;
    const auto weights = size_t(MemoryCategory::weights), gradients = size_t(MemoryCategory::gradients);
    EXPECT_EQ(memory_use(0).current[weights] + memory_use(1).current[weights], 4 * elements);
    EXPECT_EQ(memory_use(0).current[gradients] + memory_use(1).current[gradients], 4 * elements);
  }
  EXPECT_EQ(held(0), 0);
  EXPECT_EQ(held(1), 0);
}

/// A store that does not fit must give all memory back, for the next run in this process.
TEST(ParameterStore, OneThatDoesNotFitGivesEverythingBack) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}}});
  const Program program = compile(model, named_plan("data", model, Cluster::uniform(2), 16, {}), {});
  set_memory_limit(1, 100);
  try {
    ParameterStore store(program, Precision::fp32);
    ADD_FAILURE() << "it fits into 100 bytes";
  } catch (const MemoryLimitError&) {
  }
  set_memory_limit(1, 0);
  EXPECT_EQ(held(0), 0);
  EXPECT_EQ(held(1), 0);
}

TEST(Precision, Names) {
  for (Precision p : {Precision::fp32, Precision::bf16, Precision::fp64})
    EXPECT_EQ(parse_precision(name_of(p), "precision"), p);
  EXPECT_THROW(parse_precision("fp16", "precision"), Error);
  EXPECT_EQ(master_type(Precision::bf16), at::kFloat);
  EXPECT_EQ(compute_type(Precision::bf16), at::kBFloat16);
  EXPECT_EQ(master_type(Precision::fp64), at::kDouble);
}

}  // namespace
}  // namespace trireme
