// Compares replicas whose inner plans divide optimizer state, gradients and weights over their workers (zero1 to zero3)
// with the same inner plans that divide nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "../base/expect_error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/resume.h"
#include "forecast/agreement/predict_agreement.h"
#include "forecast/cost_source.h"
#include "plan/cluster_file.h"
#include "program/compile.h"
#include "replica_training.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kLevels[] = {"zero1", "zero2", "zero3"};

class DividedReplicas : public Replicas {
 protected:
  DividedReplicas() {
    experiment.batch = 32;
    experiment.length = {2, Length::Unit::epochs};
    experiment.evaluate_every = {4, Length::Unit::steps};
  }
  Outcome run_inside(const std::string& policy, const std::string& inner, int workers) {
    Outcome outcome = run(policy + ",inner=" + inner, workers);
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << policy << ", " << inner << ": " << outcome.row.reason;
    return outcome;
  }
  /// Expects equal weights and equal evaluations; the worker threads of the inner plan make the evaluations.
  static void expect_same(const Outcome& divided, const Outcome& whole, double tolerance) {
    EXPECT_LE(largest_difference(divided.weights, whole.weights), tolerance);
    ASSERT_EQ(divided.row.evaluations.size(), whole.row.evaluations.size());
    for (size_t e = 0; e < whole.row.evaluations.size(); ++e)
      EXPECT_NEAR(divided.row.evaluations[e].loss, whole.row.evaluations[e].loss, tolerance) << e;
    ASSERT_EQ(divided.row.curve.size(), whole.row.curve.size());
  }
  void use(const OptimizerKind& kind) {
    experiment.optimizer = {
        .kind = &kind, .learning_rate = &kind == &kSgd ? 0.1 : 0.01, .momentum = &kind == &kSgd ? 0.9 : 0};
  }
};

TEST_F(DividedReplicas, AverageAsUndividedOnesDoInRealTime) {
  for (const auto* kind : {&kSgd, &kAdam}) {
    use(*kind);
    for (const char* policy : {"local-sgd,every=1 steps", "local-sgd,every=3 steps,moments=averaged",
                               "local-sgd,every=2 steps,moments=reset", "local-sgd,every=3 steps,overlap=1",
                               "diloco,every_steps=3", "fedavg,rounds=3"}) {
      const Outcome whole = run_inside(policy, "data=2", 4);
      for (const std::string level : kLevels) {
        SCOPED_TRACE(fmt::format("{} under {} with {}", policy, level, kind->name));
        expect_same(run_inside(policy, "data=2,sharding=" + level, 4), whole, 1e-12);
      }
    }
  }
}

TEST_F(DividedReplicas, EveryPolicyTrainsThemAsUndividedOnes) {
  modelled(0.01);
  for (const char* policy :
       {"async-average", "partial", "easgd,period=2", "eamsgd,period=2,momentum=0.5",
        "downpour,push_every=2,fetch_every=2", "shat,period=2",
        "streaming-diloco,every_steps=4,fragments=2,outer_gradients=full", "fedprox,rounds=3", "fedadam,rounds=3"}) {
    const Outcome whole = run_inside(policy, "data=2", 4);
    for (const std::string level : kLevels) {
      SCOPED_TRACE(std::string(policy) + " under " + level);
      expect_same(run_inside(policy, "data=2,sharding=" + level, 4), whole, 1e-12);
    }
  }
}

TEST_F(DividedReplicas, DivideAlongTensorAndPipelineShapesToo) {
  use(kAdam);
  experiment.model_options = {{"hidden", 16}, {"depth", 4}};
  for (const char* inner : {"data=2,tensor=2", "data=2,pipeline=2,schedule=gpipe,micro_batches=2",
                            "data=2,pipeline=2,schedule=1f1b,micro_batches=2"}) {
    const Outcome whole = run_inside("local-sgd,every=3 steps,moments=averaged", inner, 8);
    for (const std::string level : kLevels) {
      SCOPED_TRACE(std::string(inner) + " under " + level);
      expect_same(run_inside("local-sgd,every=3 steps,moments=averaged", inner + (",sharding=" + level), 8), whole,
                  1e-10);
    }
  }
}

/// Under bf16 every level divides master values, and updates the copies in the compute type with them.
TEST_F(DividedReplicas, AreEqualInEveryPrecision) {
  use(kAdam);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    experiment.precision = precision;
    for (const char* policy : {"local-sgd,every=3 steps", "diloco,every_steps=3"}) {
      const Outcome whole = run_inside(policy, "data=2", 4);
      for (const std::string level : kLevels) {
        SCOPED_TRACE(fmt::format("{} under {} in {}", policy, level, name_of(precision)));
        expect_same(run_inside(policy, "data=2,sharding=" + level, 4), whole, precision == Precision::fp32 ? 1e-6 : 0);
      }
    }
  }
}

/// Adagrad's sums begin with a value that a reset would remove. Before the first step nothing may be reset.
TEST_F(DividedReplicas, MomentsBeginWithTheFirstStep) {
  experiment.optimizer = {.kind = &kAdagrad, .learning_rate = 0.05, .initial_accumulator = 0.5};
  const Outcome whole = run_inside("fedavg,rounds=3", "data=2", 4);
  for (const std::string level : kLevels)
    expect_same(run_inside("fedavg,rounds=3", "data=2,sharding=" + level, 4), whole, 1e-12);
}

TEST_F(DividedReplicas, LeaveFrozenWeightsAlone) {
  use(kSgd);
  for (const auto& frozen : {std::vector<std::string>{"fc1.*"}, {"fc2.weight"}}) {
    experiment.frozen = frozen;
    const Outcome whole = run_inside("local-sgd,every=2 steps", "data=2", 4);
    for (const std::string level : kLevels)
      expect_same(run_inside("local-sgd,every=2 steps", "data=2,sharding=" + level, 4), whole, 1e-12);
  }
}

/// Bytes of one worker of a replica, by the formulas in runtime/replicas/zero.cpp.
TEST_F(DividedReplicas, KeepTheirPartOfTheMoments) {
  use(kAdam);
  const Model model = build_model(experiment, data);
  const std::string policy = "local-sgd,every=2 steps";
  const auto peak = [](const Outcome& outcome, int worker, MemoryCategory category) {
    return outcome.row.memory.at(size_t(worker)).at_peak[size_t(category)];
  };
  const int64_t whole = peak(run(policy, 2), 0, MemoryCategory::optimizer);
  for (const std::string level : kLevels) {
    SCOPED_TRACE(level);
    const Plan plan = plan_with_agreement(policy + ",inner=data=2,sharding=" + level, experiment, model, 4);
    const Program program = compile(model, plan, options_of(experiment, plan, true));
    const Outcome outcome = run_inside(policy, "data=2,sharding=" + level, 4);
    ASSERT_EQ(outcome.row.memory.size(), 4u);
    for (int worker = 0; worker < 4; ++worker) {
      int64_t elements = 0, own = 0;
      for (const Bucket& bucket : program.buckets) {
        elements += bucket.elements;
        own += bucket.slice_of(worker % 2).size();
      }
      EXPECT_EQ(peak(outcome, worker, MemoryCategory::optimizer), 2 * own * 8) << worker;
      EXPECT_LT(peak(outcome, worker, MemoryCategory::optimizer), whole * 6 / 10);
      const int64_t weights = peak(outcome, worker, MemoryCategory::weights);
      if (level != "zero3") {
        EXPECT_EQ(weights, elements * 8) << worker;
      } else {
        EXPECT_GE(weights, own * 8) << worker;
      }
    }
  }
}

TEST_F(DividedReplicas, ArePredictedWithTheMemoryOfTheirPlan) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "a GPU's memory has workspaces too; the strict device counts none";
  use(kAdam);
  const Model model = build_model(experiment, data);
  const Cluster cluster = slow_cluster(4);
  for (const std::string level : kLevels) {
    SCOPED_TRACE(level);
    const std::string inner = "data=2,sharding=" + level;
    const Outcome measured = run_inside("local-sgd,every=2 steps", inner, 4);
    const Plan plan = plan_with_agreement("local-sgd,every=2 steps,inner=" + inner, experiment, model, 4);
    const CostSource source = described_source(experiment, model, cluster, device_numbers(0, plan.workers()));
    const RunResult predicted = predict_agreement(experiment, model, plan, source, {});
    ASSERT_EQ(predicted.memory.size(), 4u);
    for (size_t worker = 0; worker < 4; ++worker) {
      EXPECT_EQ(predicted.memory[worker].peak, measured.row.memory[worker].peak) << worker;
      EXPECT_EQ(predicted.memory[worker].at_peak, measured.row.memory[worker].at_peak) << worker;
    }
  }
}

class DividedResuming : public DividedReplicas {
 protected:
  DividedResuming() { fs::create_directories(root_); }
  ~DividedResuming() override { fs::remove_all(root_); }

  Outcome go(const std::string& strategy, const fs::path& folder, const fs::path& from = {}) {
    const Model model = build_model(experiment, data);
    CheckpointUse use{.folder = folder, .resumed = {}, .files = nullptr};
    if (!from.empty()) use.resumed = open_resumption(from, experiment, model, data).checkpoint;
    Keeping observer;
    RunResult row = train(experiment, model, data, plan_with_agreement(strategy, experiment, model, 4), observer,
                          interrupted, nullptr, std::move(use));
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;
    return {row, observer.weights, observer.steps};
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("divided_replicas_test." + std::to_string(::getpid()));
};

TEST_F(DividedResuming, ResumeBitForBit) {
  use(kAdam);
  experiment.length = {8, Length::Unit::steps};
  experiment.checkpoint = {
      .every = {3, Length::Unit::steps}, .keep = 0, .best = {}, .folder = {}, .where = "tiny.toml: checkpoint"};
  for (const Precision precision : {Precision::fp64, Precision::bf16})
    for (const char* policy : {"local-sgd,every=2 steps", "diloco,every_steps=2"})
      for (const std::string level : kLevels) {
        SCOPED_TRACE(fmt::format("{} under {} in {}", policy, level, name_of(precision)));
        experiment.precision = precision;
        const std::string strategy = policy + (",inner=data=2,sharding=" + level);
        const Outcome whole = go(strategy, root_ / "whole");
        const Outcome resumed = go(strategy, {}, root_ / "whole" / checkpoint_name(3));
        EXPECT_EQ(resumed.steps, 5);
        EXPECT_EQ(largest_difference(resumed.weights, whole.weights), 0);
        EXPECT_EQ(resumed.row.evaluations.back().loss, whole.row.evaluations.back().loss);
        fs::remove_all(root_ / "whole");
      }
}

/// A bit says of no value that it is 0, and the elements between two parameters are not in checkpoints.
TEST_F(DividedResuming, UnderSignsToo) {
  experiment.precision = Precision::fp32;
  experiment.length = {10, Length::Unit::steps};
  experiment.checkpoint = {
      .every = {3, Length::Unit::steps}, .keep = 0, .best = {}, .folder = {}, .where = "tiny.toml: checkpoint"};
  for (const char* policy :
       {"local-sgd,every=2 steps,post_local_after=5 steps", "diloco,every_steps=2", "gossip,every=2 steps"})
    for (const char* inner : {"data=2,sharding=zero1", "tensor=2"}) {
      SCOPED_TRACE(fmt::format("{} with {}", policy, inner));
      const std::string strategy = fmt::format("{},compression=sign,inner={}", policy, inner);
      const Outcome whole = go(strategy, root_ / "whole");
      const Outcome resumed = go(strategy, {}, root_ / "whole" / checkpoint_name(3));
      EXPECT_EQ(resumed.steps, 7);
      EXPECT_EQ(largest_difference(resumed.weights, whole.weights), 0);
      fs::remove_all(root_ / "whole");
    }
}

/// Rounded gradients leave no remainders on workers.
TEST_F(DividedReplicas, MaySendTheirGradientsAsBfloat16) {
  const Outcome exact = run_inside("local-sgd,every=2 steps", "data=2", 4);
  for (const std::string level : kLevels)
    expect_same(run_inside("local-sgd,every=2 steps", "data=2,compression=bf16,sharding=" + level, 4), exact, 0.02);
}

TEST_F(DividedReplicas, RefusesWhatMakesNoSense) {
  expect_error(Blame::user, {"hogwild", "zero1", "write to one memory"},
               [&] { run("hogwild,inner=data=2,sharding=zero1", 4); });
  expect_error(Blame::user, {"data=2,compression=bf16", "the whole weights and moments"},
               [&] { run("local-sgd,every=2 steps,inner=data=2,compression=bf16", 4); });
  expect_error(Blame::user, {"zero1", "powersgd"},
               [&] { run("local-sgd,every=2 steps,inner=data=2,sharding=zero1,compression=powersgd:2", 4); });
  const Model model = build_model(experiment, data);
  Plan plan = plan_with_agreement("hogwild,inner=data=2", experiment, model, 4);  // a file may contain this
  plan.optimizer_sharding = OptimizerSharding::zero3;
  Keeping observer;
  expect_error(Blame::user, {"hogwild", "zero3", "write to one memory"},
               [&] { train(experiment, model, data, plan, observer, interrupted); });
}

}  // namespace
}  // namespace trireme::test_support
