// Workload: a program outside Trireme trains, verifies and predicts with its model, data and plans.
#include "trireme/workload.h"
#include "../base/expect_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "trireme/layers.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

const std::string kExamples = TRIREME_EXAMPLES;
constexpr int64_t kSamples = 256, kBatch = 64, kSteps = kSamples / kBatch;

TaskData digits() { return open_data_set("name = \"digits\"\ntrain_limit = 256\ntest_limit = 100"); }

Model mlp() {
  ModelBuilder builder("mlp");
  const NodeId image = builder.input("data", {1, 28, 28}), target = builder.input("target", {});
  const NodeId x = builder.layer<Linear>({builder.layer<Flatten>({image}, "flatten")}, "hidden", 784, 32);
  const NodeId logits = builder.layer<Linear>({builder.layer<Relu>({x}, "relu")}, "out", 32, 10);
  return builder.finish(logits, builder.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));
}

Workload workload(const std::string& more = "", const std::string& length = "1 epochs") {
  return Workload::of(mlp(), digits(),
                      "batch = 64\nlength = \"" + length +
                          "\"\n"
                          "optimizer = { kind = \"sgd\", learning_rate = 0.1 }\n" +
                          more);
}

TEST(Workload, TrainsAlongOneCurveUnderEveryPlan) {
  const Workload w = workload("precision = \"fp64\"");
  EXPECT_EQ(w.batch(), kBatch);
  const TrainingResult single = w.train(w.plan("single", 1)), data = w.train(w.plan("data=2", 2));
  for (const TrainingResult& result : {single, data}) {
    ASSERT_TRUE(result.ok) << result.reason;
    EXPECT_EQ(result.status, "ok");
    ASSERT_EQ(int64_t(result.steps.size()), kSteps);
    EXPECT_EQ(result.steps.back().total_steps, kSteps);
    EXPECT_EQ(result.steps.back().samples, kSamples);
    ASSERT_EQ(result.evaluations.size(), 1u);
    EXPECT_EQ(result.evaluations[0].metrics.at(0).name, "accuracy");
    EXPECT_EQ(result.weights.at("hidden.weight").sizes(), (std::vector<int64_t>{32, 784}));
    EXPECT_TRUE(result.step_seconds && result.samples_per_second);
  }
  EXPECT_EQ(data.plan, "data 2");
  EXPECT_EQ(data.peak_memory.size(), 2u);
  for (size_t i = 0; i < single.steps.size(); ++i) EXPECT_NEAR(single.steps[i].loss, data.steps[i].loss, 1e-10) << i;
}

TEST(Workload, ReportsWhileItTrainsAndStopsOnRequest) {
  const Workload w = workload();
  std::atomic<bool> stop = false;
  int64_t steps = 0, evaluations = 0;
  TrainingHooks hooks;
  hooks.on_step = [&](const TrainingStep& step) { steps = std::max(steps, step.step); };
  hooks.on_evaluation = [&](const TrainingEvaluation& evaluation) { evaluations += !evaluation.metrics.empty(); };
  ASSERT_TRUE(w.train(w.plan("single", 1), hooks).ok);
  EXPECT_EQ(steps, kSteps);
  EXPECT_EQ(evaluations, 1);

  hooks.stop = &stop;
  hooks.on_step = [&](const TrainingStep&) { stop = true; };
  const Workload endless = workload("", "100000000 steps");
  const TrainingResult stopped = endless.train(endless.plan("single", 1), hooks);
  EXPECT_FALSE(stopped.ok);
  EXPECT_EQ(stopped.status, "interrupted");
  EXPECT_TRUE(stopped.weights.empty());
}

TEST(Workload, VerifiesAPlanWithOneDevice) {
  const Verification same = workload("precision = \"fp64\"").verify(workload().plan("tensor=2", 2), 2);
  EXPECT_TRUE(same.ok) << same.parameter_difference;
  EXPECT_LE(same.parameter_difference, same.tolerance);
  EXPECT_LE(same.tolerance, 1e-9);
}

TEST(Workload, PredictsAndPlansForADescribedCluster) {
  const Workload w = workload();
  const Cluster cluster = read_cluster(kExamples + "/clusters/8xa100.cluster.toml");
  const StepPrediction data = w.simulate(w.plan("data=2", 2), cluster);
  ASSERT_TRUE(data.fits && data.step_seconds && data.peak_memory) << data.reason;
  EXPECT_THAT(data.basis, HasSubstr("datasheet"));
  const Plan best = w.find_plan(cluster), small = w.find_plan(cluster, SearchGoal::memory);
  const StepPrediction fastest = w.simulate(best, cluster), smallest = w.simulate(small, cluster);
  EXPECT_LE(*fastest.step_seconds, *data.step_seconds * (1 + 1e-9));
  EXPECT_LE(*smallest.peak_memory, *data.peak_memory);

  Cluster tiny = cluster;
  for (Device& device : tiny.devices) device.memory = 1000;
  EXPECT_THAT(message_of(Blame::user, [&] { w.find_plan(tiny); }), HasSubstr("no plan fits"));
  const StepPrediction full = w.simulate(w.plan("data=2", 2), tiny);
  EXPECT_FALSE(full.fits);
  EXPECT_FALSE(full.reason.empty());
}

TEST(Workload, PredictsAndPlansForThisMachine) {
  const Workload w = workload();
  const Plan best = w.find_plan(2);
  EXPECT_LE(best.devices, 2);
  const StepPrediction step = w.simulate(best);
  ASSERT_TRUE(step.step_seconds) << step.reason;
  EXPECT_GT(*step.step_seconds, 0);
  EXPECT_TRUE(w.train(best).ok);
}

TEST(Workload, DrawsAPlan) {
  const Workload w = workload();
  const std::string drawing = draw_plan(w.plan("gpipe,micro_batches=4", 2), w.model(), 80);
  EXPECT_THAT(drawing, HasSubstr("worker 1"));
  EXPECT_THAT(drawing, HasSubstr("bubble"));
}

TEST(Workload, ReadsAnExperimentFile) {
  const Workload w = Workload::from_file(
      kExamples + "/mnist.toml", {"batch=32", "data.name=digits", "data.train_limit=128", "data.test_limit=64"});
  EXPECT_EQ(w.batch(), 32);
  EXPECT_EQ(w.data().train->size(), 128);
  EXPECT_EQ(w.model().name(), "mnist-convnet");
}

TEST(Workload, TakesAnUpdatePolicyAsPlan) {
  const Workload w = workload();
  const TrainingResult result = w.train(w.plan("local-sgd,every=2 steps", 2));
  EXPECT_TRUE(result.ok) << result.reason;
}

TEST(Workload, BadInputIsOneLine) {
  EXPECT_THAT(message_of(Blame::user, [] { workload("batsch = 3"); }), HasSubstr("batsch"));
  EXPECT_THAT(message_of(Blame::user, [] { workload("model = \"vgg\""); }), HasSubstr("leave it out"));
  EXPECT_THAT(message_of(Blame::user, [] { workload().plan("dat", 2); }), HasSubstr("dat"));
  EXPECT_THAT(message_of(Blame::user, [] { open_data_set("name = \"digts\""); }), HasSubstr("digits"));
  EXPECT_THAT(message_of(Blame::user, [] { read_cluster("nowhere.cluster.toml"); }), HasSubstr("nowhere.cluster.toml"));
}

}  // namespace
}  // namespace trireme
