// All plans for ResNet-18 with global batch norm. With micro-batches the reference is one device with the same number
// of them.
#include "equivalence.h"

namespace trireme::test_support {
namespace {

TEST(GlobalBatchNorm, DoubleUnderEveryPlan) {
  const Model model = small_model("resnet-bn");
  size_t turn = 0;
  for (const std::string& degrees : all_degrees())
    expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {});
}

TEST(GlobalBatchNorm, FloatUnderPlansWithFewMicroBatches) {
  const Model model = small_model("resnet-bn");
  for (const char* degrees : {"data=2", "data=3", "tensor=2", "pipeline=3,micro_batches=1", "data=2,tensor=2",
                              "data=2,pipeline=2,micro_batches=1", "tensor=2,pipeline=2,micro_batches=1"})
    expect_equivalent(model, plan_of(degrees, model), recipes()[0],
                      {.precision = Precision::fp32, .tolerance = 2e-3, .batches = {13, 11}});
}

/// Local statistics are those of a data shard: the curve differs by design.
TEST(LocalBatchNorm, DiffersUnderDataShards) {
  const Model model = small_model("resnet-bn");
  const Comparison local{.batches = {12}, .batch_norm = BatchNormScope::local};
  const double single = run_recipe(model, single_plan(model), recipes()[0], local, false)[0].loss;
  const double sharded = run_recipe(model, plan_of("data=2", model), recipes()[0], local, false)[0].loss;
  const double piped =
      run_recipe(model, plan_of("pipeline=2,micro_batches=1", model), recipes()[0], local, false)[0].loss;
  EXPECT_GT(std::abs(sharded - single), 1e-6);
  EXPECT_NEAR(piped, single, 1e-10 * single);
}

}  // namespace
}  // namespace trireme::test_support
