// A policy stores weights one after the other. What changes their order is refused when a run resumes.
#include <unistd.h>

#include <filesystem>

#include "../base/expect_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_use.h"
#include "program/compile.h"
#include "replica_training.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/agreement_state.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;

/// A model with batch norms: their weights stay in full precision under bf16, and have buckets of their own.
class OrderOfWeights : public Replicas {
 public:
  ~OrderOfWeights() override { fs::remove_all(root_); }

 protected:
  OrderOfWeights() {
    data.train = std::make_shared<MemoryDataset>(64, 1, Shape{3, 8, 8});
    data.test = std::make_shared<MemoryDataset>(16, 2, Shape{3, 8, 8});
    experiment.batch = 8;
    experiment.model_name = "cifar-resnet18";
    experiment.model_options = {{"width", 2}};
    experiment.precision = Precision::fp32;
    experiment.length = {6, Length::Unit::steps};
    experiment.evaluate_every = experiment.length;
    experiment.checkpoint.every = {4, Length::Unit::steps};
    experiment.checkpoint.keep = 0;
  }

  std::string order(const std::string& plan, int devices) {
    const Model model = build_model(experiment, data);
    CompileOptions options = compile_options(experiment, /*training=*/true);
    if (bucket_bytes_ > 0) options.bucket_bytes = options.first_bucket_bytes = bucket_bytes_;
    return order_of_weights(compile(model, make_plan(plan, experiment, model, devices), options));
  }

  /// `from`: empty: begins anew, and writes checkpoints.
  RunResult train_under(const std::string& policy, const fs::path& from = {}) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_with_agreement(policy, experiment, model, 2);
    CheckpointUse use;
    if (from.empty()) use.folder = root_ / policy;
    else use.resumed = open_resumption(from, plan, experiment, model, data).checkpoint;
    Keeping observer;
    return train(experiment, model, data, plan, observer, interrupted, nullptr, std::move(use));
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("agreement_order_test." + std::to_string(::getpid()));
  int64_t bucket_bytes_ = 0;
};

TEST_F(OrderOfWeights, DependsOnPrecisionFrozenParametersAndPlan) {
  const std::string usual = order("single", 1);
  EXPECT_EQ(order("data", 2), usual) << "slices of a bucket follow each other";
  bucket_bytes_ = 64;
  EXPECT_EQ(order("single", 1), usual) << "the cuts between buckets change nothing";
  EXPECT_EQ(order("data", 3), usual);
  bucket_bytes_ = 0;
  experiment.precision = Precision::bf16;
  EXPECT_NE(order("single", 1), usual);
  experiment.precision = Precision::fp32;
  EXPECT_NE(order("tensor", 2), usual);
  experiment.frozen = {build_model(experiment, data).parameters().front().name};
  EXPECT_NE(order("single", 1), usual);
}

TEST_F(OrderOfWeights, AnotherOneIsRefusedIfThePolicyStoresWeights) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "the order does not depend on the device";
  fs::create_directories(root_);
  for (const std::string policy : {"diloco,every_steps=2", "local-sgd,every=2 steps"}) {
    SCOPED_TRACE(policy);
    experiment.precision = Precision::fp32;
    ASSERT_EQ(train_under(policy).status, RunStatus::ok);
    const fs::path cut = root_ / policy / checkpoint_name(4);
    EXPECT_EQ(train_under(policy, cut).status, RunStatus::ok);
    experiment.precision = Precision::bf16;
    if (policy.starts_with("diloco"))
      expect_error(Blame::user, {"another order", "start a new run"}, [&] { train_under(policy, cut); });
    else EXPECT_EQ(train_under(policy, cut).status, RunStatus::ok) << "it stores none between two exchanges";
  }
}

}  // namespace
}  // namespace trireme::test_support
