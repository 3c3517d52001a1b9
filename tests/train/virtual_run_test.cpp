// Whole runs in modelled time: they learn as in real time under the same plan, and take the time that the simulator
// predicts.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "../base/expect_error.h"
#include "experiment/make_plan.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "tiny_training.h"
#include "train/compare.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

struct Kept : TrainObserver {
  void on_step(const StepReport&) override {}
  void on_evaluation(const EvaluationPoint&) override {}
  void on_weights(const Weights& trained) override { weights = trained.tensors; }
  TensorMap weights;
};

struct Outcome {
  RunResult row;
  TensorMap weights;
};

class VirtualRun : public TinyTraining {
 protected:
  VirtualRun() {
    data.train = train_set = std::make_shared<MemoryDataset>(192, 1);  // 24 and 64 divide it
    experiment.batch = 24;
    experiment.length = {18, Length::Unit::steps};
    experiment.evaluate_every = {9, Length::Unit::steps};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0.9;
    experiment.precision = Precision::fp32;
    experiment.private_replicas = true;
    experiment.model_options = {{"hidden", 64}, {"depth", 3}};

    DeviceKind kind;
    kind.name = "slow";
    kind.speeds["fp32"] = {.peak_flops = 1e9, .greatest_efficiency = 1, .half_work = 1};
    kind.memory_bandwidth = 1e9;
    kind.launch = 1e-5;
    cluster.kinds = {kind};
    cluster.nodes = {ClusterNode{.link = {.bandwidth = 1e8, .latency = 1e-5}}};
    cluster.overlap = Overlap::all;
    cluster.compute_slowdown = 1.5;
  }
  void TearDown() override {
    experiment.virtual_machines.reset();
    TinyTraining::TearDown();
  }

  CostSource source(const Model& model, int devices) {
    cluster.devices.assign(size_t(devices), Device{.kind = 0});
    std::vector<int> numbers(static_cast<size_t>(devices));
    std::iota(numbers.begin(), numbers.end(), 0);
    return described_source(experiment, model, cluster, numbers);
  }

  Outcome run(const Model& model, const Plan& plan, bool in_virtual_time) {
    RunSpec e = experiment;
    if (in_virtual_time) {
      e.virtual_machines = std::make_shared<const CostSource>(source(model, plan.devices));
      e.virtual_machines_in_words = "the tests' machines";
    }
    Kept kept;
    Outcome outcome{train(e, model, data, plan, kept, interrupted), {}};
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    EXPECT_FALSE(in_virtual_time && outcome.row.core_seconds) << "modelled time does not depend on cores";
    outcome.weights = std::move(kept.weights);
    return outcome;
  }

  Cluster cluster;
};

void expect_same_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.row.curve.size(), b.row.curve.size());
  for (size_t k = 0; k < a.row.curve.size(); ++k) EXPECT_EQ(a.row.curve[k].loss, b.row.curve[k].loss) << k;
  ASSERT_EQ(a.row.evaluations.size(), b.row.evaluations.size());
  for (size_t k = 0; k < a.row.evaluations.size(); ++k)
    EXPECT_EQ(a.row.evaluations[k].loss, b.row.evaluations[k].loss) << k;
  ASSERT_FALSE(a.weights.empty());
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, tensor] : a.weights) EXPECT_TRUE(tensor.equal(b.weights.at(name))) << name;
}

/// `within`: greatest relative difference from the simulator's step. The simulator divides a connection among
/// simultaneous transfers.
struct Case {
  std::string plan;
  int devices;
  double within;
};

class VirtualPlans : public VirtualRun, public ::testing::WithParamInterface<Case> {};

TEST_P(VirtualPlans, LearnAsInRealTimeAndTakeTheSimulatedTime) {
  const auto& [name, devices, within] = GetParam();
  experiment.batch = std::max<int64_t>(experiment.batch, devices);
  const Model model = build_model(experiment, data);
  // Balanced by the seconds of the described machines; measured seconds could cut the stages elsewhere.
  const Plan plan = make_plan(name, experiment, model, source(model, devices));
  const Outcome real = run(model, plan, false), modelled = run(model, plan, true), again = run(model, plan, true);
  expect_same_bits(real, modelled);
  expect_same_bits(modelled, again);
  for (size_t k = 0; k < again.row.curve.size(); ++k)
    EXPECT_EQ(modelled.row.curve[k].seconds, again.row.curve[k].seconds) << "a function of its input";
  EXPECT_EQ(modelled.row.backend, "virtual");
  EXPECT_EQ(clock_of(modelled.row), "modelled");
  EXPECT_EQ(clock_of(real.row), "real");
  EXPECT_EQ(modelled.row.bytes_per_step, real.row.bytes_per_step);
  const RunResult simulated = predict(experiment, model, plan, source(model, devices));
  ASSERT_TRUE(modelled.row.step_seconds && simulated.step_seconds);
  // Without flush, a run includes filling and emptying the pipeline; the simulator's steady state does not. Here, with
  // stages of unequal length, this is up to 9 points.
  const double busy_within = look_up_schedule(plan.schedule)->flushes ? 0.03 : 0.1;
  for (size_t rank = 0; rank < modelled.row.busy_share.size(); ++rank)
    EXPECT_NEAR(modelled.row.busy_share[rank], simulated.busy_share[rank], busy_within) << rank;
  RecordProperty("ratio", std::to_string(modelled.row.step_seconds->median / simulated.step_seconds->median));
  EXPECT_NEAR(modelled.row.step_seconds->median / simulated.step_seconds->median, 1, within)
      << modelled.row.step_seconds->median;
}

TEST_F(VirtualRun, ASlowWorkerTakesItsTimeAndOthersWait) {
  const Model model = build_model(experiment, data);
  const Plan plan = make_plan("data", experiment, model, 3);
  const Outcome even = run(model, plan, true);
  experiment.worker_changes = {{.worker = 1, .at_step = 0, .slower = 100}};
  const Outcome uneven = run(model, plan, true);
  expect_same_bits(even, uneven);
  CostSource slow = source(model, 3);
  slow.slowness = {1, 100, 1};
  const RunResult simulated = predict(experiment, model, plan, slow);
  EXPECT_NEAR(uneven.row.step_seconds->median / simulated.step_seconds->median, 1, 0.02);
  EXPECT_GT(uneven.row.step_seconds->median, 10 * even.row.step_seconds->median);
  EXPECT_LT(uneven.row.busy_share[0], 0.05);
  EXPECT_GT(uneven.row.busy_share[1], 0.8);
}

TEST_F(VirtualRun, NewWeightsAreGatheredOnceAllHaveUpdatedTheirs) {
  const Model model = build_model(experiment, data);
  const Plan plan = make_plan("zero1", experiment, model, 3);
  experiment.worker_changes = {{.worker = 2, .at_step = 0, .slower = 100}};
  const Outcome uneven = run(model, plan, true);
  CostSource slow = source(model, 3);
  slow.slowness = {1, 1, 100};
  EXPECT_NEAR(uneven.row.step_seconds->median / predict(experiment, model, plan, slow).step_seconds->median, 1, 0.02);
}

TEST_F(VirtualRun, OptionsAreThoseOfRealTime) {
  experiment.batch = 25;  // the last batch has 17 samples, which three workers divide unequally
  experiment.clip_norm = 0.1;
  experiment.optimizer.ema = 0.9;
  experiment.optimizer.kind = &kLamb;
  const Model model = build_model(experiment, data);
  for (const char* name : {"data", "zero1", "pipeline,micro_batches=3"}) {
    const Plan plan = make_plan(name, experiment, model, 3);
    expect_same_bits(run(model, plan, false), run(model, plan, true));
  }
}

TEST_F(VirtualRun, TheCauseIsReportedNotItsConsequences) {
  const Model model = build_model(experiment, data);
  const std::pair<const char*, int64_t> cases[] = {{"data", 100},
                                                   {"data", 20},
                                                   {"1f1b", 30},
                                                   {"1f1b", 10},
                                                   {"zero3", 100}};  // KiB; some fail during a step, some at the start
  for (const auto& [name, limit] : cases)
    for (int k = 0; k < 4; ++k) {
      RunSpec e = experiment;
      e.device_memory = limit * 1024;
      const Plan plan = make_plan(name, e, model, 3);
      e.virtual_machines = std::make_shared<const CostSource>(source(model, 3));
      Kept kept;
      const RunResult row = train(e, model, data, plan, kept, interrupted);
      EXPECT_EQ(row.status, RunStatus::does_not_fit) << name << ": " << row.reason;
    }
  for (int d = 0; d < 3; ++d) set_memory_limit(d, 0);
}

TEST_F(VirtualRun, AWorkerThatFailsEndsTheOthers) {
  train_set->fail_after = 30;
  const Model model = build_model(experiment, data);
  RunSpec e = experiment;
  e.virtual_machines = std::make_shared<const CostSource>(source(model, 3));
  Kept kept;
  const RunResult row = train(e, model, data, make_plan("data", e, model, 3), kept, interrupted);
  EXPECT_EQ(row.status, RunStatus::failed);
  EXPECT_THAT(row.reason, HasSubstr("disk on fire"));
}

TEST_F(VirtualRun, CostsThePriceOfTheMachines) {
  cluster.nodes.front().price_per_hour = 3600;
  const Model model = build_model(experiment, data);
  const Outcome two = run(model, make_plan("data", experiment, model, 2), true);
  ASSERT_TRUE(two.row.price_per_epoch && two.row.epoch_seconds);
  EXPECT_NEAR(*two.row.price_per_epoch, *two.row.epoch_seconds, 1e-12) << "one a second, for the node";
  EXPECT_THAT(two.row.warnings, ::testing::Contains(HasSubstr("times are a model's: the tests' machines")));
}

INSTANTIATE_TEST_SUITE_P(
    All, VirtualPlans,
    ::testing::Values(Case{"single", 1, 1e-6}, Case{"data", 4, 1e-3}, Case{"data,micro_batches=3", 2, 1e-3},
                      Case{"tensor", 2, 1e-3}, Case{"pipeline", 3, 1e-3}, Case{"gpipe,micro_batches=4", 2, 1e-3},
                      Case{"data=2,tensor=2", 4, 0.05}, Case{"1f1b", 3, 1e-3}, Case{"interleaved", 2, 1e-3},
                      Case{"zero-bubble", 2, 1e-3}, Case{"zero-bubble-v", 2, 1e-3}, Case{"pipedream", 2, 0.01},
                      Case{"2bw", 2, 1e-3}, Case{"data,compression=bf16", 2, 1e-3},
                      Case{"data=2,pipeline=2,recompute=all", 4, 1e-3}, Case{"zero1", 4, 1e-3}, Case{"zero2", 2, 1e-3},
                      Case{"zero3", 2, 1e-3}, Case{"zero1,sharding_group=2", 4, 1e-3},
                      Case{"zero2,sharding_group=2", 4, 1e-3}, Case{"zero3,sharding_group=2", 4, 1e-3},
                      Case{"data", 64, 1e-3}),
    [](const auto& info) {
      std::string name = info.param.plan + "_" + std::to_string(info.param.devices);
      for (char& c : name)
        if (!std::isalnum(c)) c = '_';
      return name;
    });

}  // namespace
}  // namespace trireme::test_support
