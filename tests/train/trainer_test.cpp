// Whole runs on a tiny task: every way to end, and the measurements.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "../base/expect_error.h"
#include "experiment/make_plan.h"
#include "model/weights/match.h"
#include "plan/named.h"
#include "tiny_training.h"
#include "train/trained_weights.h"
#include "trireme/error.h"
#include "zoo/spec_text.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

struct Counting : TrainObserver {
  std::atomic<int> steps{0};  // another thread may wait for the first one
  int evaluations = 0;
  StepReport last;
  void on_step(const StepReport& report) override {
    ++steps;
    last = report;
  }
  void on_evaluation(const EvaluationPoint&) override { ++evaluations; }
  void on_weights(const Weights& trained) override { weights.push_back(trained); }
  std::vector<Weights> weights;
};

class Training : public TinyTraining {
 protected:
  Training() {
    experiment.length = {6, Length::Unit::epochs};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0.9;
  }

  RunResult run(const std::string& plan = "data", int devices = 2) {
    const Model model = build_model(experiment, data);
    return train(experiment, model, data, make_plan(plan, experiment, model, devices), observer, interrupted);
  }

  Counting observer;
};

TEST_F(Training, TellsHowFastTheCoresWere) {
  train_set->pause = std::chrono::milliseconds(20);  // steps long enough for a measurement each
  experiment.length = {6, Length::Unit::steps};
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
  EXPECT_GT(r.core_seconds.value_or(0), 0);
  EXPECT_LT(*r.core_seconds, 0.01);
}

TEST_F(Training, Ok) {
  experiment.target = 0.6;
  experiment.evaluate_every = {0.5, Length::Unit::epochs};
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
  EXPECT_EQ(r.reason, "");
  EXPECT_EQ(r.strategy, "data");
  EXPECT_EQ(r.plan, "data 2");
  EXPECT_EQ(r.devices, 2);
  ASSERT_EQ(r.curve.size(), 66u);  // 11 steps per epoch, the last with 10 samples
  EXPECT_EQ(observer.steps, 66);
  EXPECT_EQ(observer.last.total_steps, 66);
  EXPECT_EQ(r.curve[0].samples, 20);
  EXPECT_EQ(r.curve[10].samples, 210);
  EXPECT_EQ(r.curve.back().samples, 6 * 210);
  EXPECT_NEAR(r.curve[0].loss, std::log(4.0), 0.5);
  for (size_t i = 1; i < r.curve.size(); ++i) EXPECT_GE(r.curve[i].seconds, r.curve[i - 1].seconds);
  ASSERT_EQ(r.evaluations.size(), 11u);  // every 6 steps in 66
  EXPECT_EQ(observer.evaluations, 11);
  EXPECT_EQ(r.test->main()->name, "accuracy");
  EXPECT_GT(r.test->main()->value, 0.8);
  EXPECT_LT(r.test->loss, 0.7);
  ASSERT_TRUE(r.to_target);
  EXPECT_LE(r.to_target->steps, 66);
  ASSERT_TRUE(r.step_seconds && r.samples_per_second && r.epoch_seconds && r.bytes_per_step && r.exposed_communication);
  EXPECT_LE(r.step_seconds->p10, r.step_seconds->median);
  EXPECT_LE(r.step_seconds->median, r.step_seconds->p90);
  EXPECT_EQ(r.busy_share.size(), 2u);
  ASSERT_EQ(r.memory.size(), 2u);
  EXPECT_GT(r.memory[0].at_peak[size_t(MemoryCategory::weights)], 0);
  ASSERT_TRUE(r.timeline);
  EXPECT_EQ(r.timeline->workers, 2);
  EXPECT_FALSE(r.schedule) << "one stage, one micro-batch";
}

TEST_F(Training, PipelinesCarryTheirSchedule) {
  experiment.length = {2, Length::Unit::steps};
  experiment.micro_batches = 4;
  const RunResult r = run("gpipe", 2);
  ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_TRUE(r.schedule);
  EXPECT_EQ(r.schedule->at("micro_batches"), 4);
  EXPECT_NEAR(r.schedule->at("bubble").get<double>(), 1.0 / 5, 1e-9);  // (p - 1) / (m + p - 1)
  ASSERT_EQ(r.schedule->at("rows").size(), 2u);
  EXPECT_EQ(r.schedule->at("rows").at(1).at("boxes").size(), 8u);
}

TEST_F(Training, CurveAndEvaluationDoNotDependOnThePlan) {
  experiment.precision = Precision::fp64;
  experiment.length = {25, Length::Unit::steps};
  const RunResult single = run("single", 1);
  for (const auto& [plan, devices] : std::vector<std::pair<std::string, int>>{
           {"data", 3}, {"tensor", 4}, {"pipeline", 3}, {"hybrid:tensor", 4}, {"hybrid:pipeline", 4}}) {
    SCOPED_TRACE(plan);
    const RunResult other = run(plan, devices);
    ASSERT_EQ(other.status, RunStatus::ok) << other.reason;
    ASSERT_EQ(other.curve.size(), single.curve.size());
    for (size_t i = 0; i < single.curve.size(); ++i) EXPECT_NEAR(other.curve[i].loss, single.curve[i].loss, 1e-9);
    EXPECT_NEAR(other.test->loss, single.test->loss, 1e-9);
    EXPECT_EQ(other.test->metrics, single.test->metrics);
  }
}

TEST_F(Training, NormOfTheGradientDoesNotDependOnThePlan) {
  experiment.precision = Precision::fp64;
  experiment.length = {12, Length::Unit::steps};  // with the short batch at an epoch's end
  experiment.gradient_norm = true;
  const RunResult single = run("single", 1);
  for (const CurvePoint& point : single.curve) ASSERT_GT(point.gradient_norm.value_or(0), 0);
  for (const bool copies : {false, true})
    for (const auto& [plan, devices] : std::vector<std::pair<std::string, int>>{{"data", 3},
                                                                                {"tensor", 4},
                                                                                {"gpipe", 3},
                                                                                {"1f1b", 3},
                                                                                {"zero-bubble", 3},
                                                                                {"zero1", 3},
                                                                                {"zero2", 3},
                                                                                {"zero3", 3},
                                                                                {"data=2,tensor=2,sharding=zero3", 4},
                                                                                {"hybrid:pipeline", 4}}) {
      SCOPED_TRACE(plan);
      experiment.private_replicas = copies;
      const RunResult other = run(plan, devices);
      ASSERT_EQ(other.status, RunStatus::ok) << other.reason;
      ASSERT_EQ(other.curve.size(), single.curve.size());
      for (size_t i = 0; i < single.curve.size(); ++i)
        EXPECT_NEAR(other.curve[i].gradient_norm.value_or(NAN), *single.curve[i].gradient_norm,
                    1e-9 * *single.curve[i].gradient_norm);
    }
  experiment.gradient_norm = false;
  EXPECT_FALSE(run("data", 2).curve.front().gradient_norm) << "nothing needs it";
}

/// A step of plain SGD moves the weights by the learning rate times the gradient.
TEST_F(Training, NormOfTheGradientIsTheLengthOfAStepOfSgd) {
  experiment.precision = Precision::fp64;
  experiment.length = {1, Length::Unit::steps};
  experiment.optimizer.momentum = 0;
  experiment.optimizer.learning_rate = 0;
  run("single", 1);
  experiment.optimizer.learning_rate = 0.5;
  experiment.gradient_norm = true;
  const RunResult moved = run("data", 2);
  ASSERT_EQ(observer.weights.size(), 2u);
  double squares = 0;
  for (const auto& [name, before] : observer.weights[0].tensors)
    squares += (observer.weights[1].tensors.at(name) - before).square().sum().item<double>();
  EXPECT_EQ(moved.curve[0].learning_rate, 0.5);
  EXPECT_NEAR(moved.curve[0].gradient_norm.value_or(0), std::sqrt(squares) / 0.5, 1e-9);
  experiment.gradient_norm = false;
  experiment.clip_norm = 1e-3;
  EXPECT_NEAR(run("data", 2).curve[0].gradient_norm.value_or(0), *moved.curve[0].gradient_norm, 1e-9)
      << "before clipping, which needs it anyway";
}

/// The last stage ends a batch before the first one does: the norm is that of the batch that all have ended.
TEST_F(Training, NormOfTheGradientUnderAScheduleWithoutFlush) {
  experiment.precision = Precision::fp64;
  experiment.length = {6, Length::Unit::steps};
  experiment.gradient_norm = true;
  const RunResult single = run("single", 1), other = run("pipedream", 3);
  ASSERT_EQ(other.status, RunStatus::ok) << other.reason;
  ASSERT_EQ(other.curve.size(), 6u);
  EXPECT_FALSE(other.curve[0].gradient_norm || other.curve[1].gradient_norm) << "stage 0 has ended no batch";
  EXPECT_NEAR(other.curve[2].gradient_norm.value_or(0), *single.curve[0].gradient_norm, 1e-9);
}

TEST_F(Training, LearningRatesAreThoseOfTheSchedule) {
  experiment.length = {8, Length::Unit::steps};
  experiment.schedule.kind = LearningRateSchedule::Kind::step;
  experiment.schedule.decay_factor = 0.5;
  experiment.schedule.decay_every = {3, Length::Unit::steps};
  const RunResult r = run();
  ASSERT_EQ(r.curve.size(), 8u);
  const std::vector<double> expected = {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(r.curve[i].learning_rate, expected[i], 1e-12) << i;
  EXPECT_EQ(observer.last.point.learning_rate, r.curve.back().learning_rate);
}

TEST_F(Training, TimedOut) {
  experiment.length = {100000, Length::Unit::steps};
  experiment.time_limit = 1;
  train_set->pause = std::chrono::milliseconds(2);
  const auto begin = Clock::now();
  const RunResult r = run();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(r.status, RunStatus::timed_out);
  EXPECT_THAT(r.reason, HasSubstr("time_limit"));
  EXPECT_GT(r.curve.size(), 5u);
  EXPECT_TRUE(r.step_seconds);
  EXPECT_EQ(r.memory.size(), 2u);
}

TEST_F(Training, InterruptedWithinTwoSeconds) {
  experiment.length = {100000, Length::Unit::steps};
  train_set->pause = std::chrono::milliseconds(5);
  std::atomic<int64_t> interrupted_at{0};
  std::thread user([&] {
    while (observer.steps == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    interrupted_at = Clock::now().time_since_epoch().count();
    interrupted = true;
  });
  const RunResult r = run("pipeline", 2);
  const auto took = Clock::now().time_since_epoch() - Clock::duration(interrupted_at.load());
  user.join();
  EXPECT_LT(took, std::chrono::seconds(2));
  EXPECT_EQ(r.status, RunStatus::interrupted);
  EXPECT_THAT(r.reason, HasSubstr("stopped by the user"));
  EXPECT_FALSE(r.curve.empty());
}

TEST_F(Training, DoesNotFit) {
  for (int64_t limit : {int64_t{500}, int64_t{9000}}) {  // less than the weights need; less than the first step needs
    experiment.device_memory = limit;
    const RunResult r = run();
    EXPECT_EQ(r.status, RunStatus::does_not_fit) << limit;
    EXPECT_THAT(r.reason, HasSubstr("device_memory"));
    EXPECT_EQ(r.reason.find('\n'), std::string::npos);
    EXPECT_TRUE(r.curve.empty());
    EXPECT_EQ(r.memory.size(), 2u);
    EXPECT_FALSE(r.step_seconds);
  }
  experiment.device_memory = 0;
  EXPECT_EQ(run().status, RunStatus::ok) << "the limit ends with its run";
}

TEST_F(Training, Failed) {
  train_set->fail_after = 30;
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::failed);
  EXPECT_THAT(r.reason, HasSubstr("disk on fire"));
  EXPECT_GE(r.curve.size(), 10u);
  EXPECT_TRUE(r.step_seconds);
  EXPECT_FALSE(r.timeline && r.timeline->events.empty());
}

TEST_F(Training, DivergedEndsAndFails) {
  experiment.optimizer.learning_rate = 1e30;
  experiment.length = {2000, Length::Unit::steps};
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::failed);
  EXPECT_THAT(r.reason, HasSubstr("diverged: the loss of step "));
  EXPECT_LT(r.curve.size(), 2000u) << "nothing is gained by going on";
}

/// The only step's loss is computed with the first weights, the evaluation's loss with the second ones.
TEST_F(Training, DivergedInItsLastStepFails) {
  experiment.optimizer.learning_rate = 1e30;
  experiment.length = {1, Length::Unit::steps};
  experiment.target = 0.1;
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::failed);
  EXPECT_THAT(r.reason, HasSubstr("diverged: the test loss after step 1 is not finite"));
  EXPECT_FALSE(r.to_target);
}

TEST_F(Training, WarnsOfSettingsThatDoLessThanTheySay) {
  const auto warnings = [&] { return run("single", 1).warnings; };
  experiment.length = {4, Length::Unit::steps};
  experiment.schedule.warmup = {4, Length::Unit::steps};
  EXPECT_TRUE(warnings().empty());
  experiment.schedule.warmup = {1, Length::Unit::epochs};
  EXPECT_THAT(warnings(), ::testing::ElementsAre(HasSubstr("warm-up of 11 steps is longer than the run of 4")));
  experiment.schedule.warmup = {0, Length::Unit::steps};
  experiment.batch = 211;
  EXPECT_THAT(warnings(), ::testing::ElementsAre(HasSubstr("batch = 211 is more than the 210 training samples")));
}

TEST_F(Training, AnObserverThatThrowsEndsTheWorkers) {
  struct Full : TrainObserver {
    void on_step(const StepReport& report) override {
      if (report.point.step == 2) fail_run({"metrics.jsonl", "cannot be written", "no space", "free some"});
    }
  } full;
  const Model model = build_model(experiment, data);
  const Plan plan = make_plan("data", experiment, model, 2);
  expect_error(Blame::run, {"metrics.jsonl", "no space"},
               [&] { train(experiment, model, data, plan, full, interrupted); });
}

TEST_F(Training, FailedInEvaluation) {
  test_set->fail_after = 3;
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::failed);
  EXPECT_GE(r.curve.size(), 11u);
}

TEST_F(Training, BadPlansThrowBeforeAnythingStarts) {
  expect_error(Blame::user, {"\"dada\""}, [&] { run("dada"); });
  experiment.micro_batches = 50;
  expect_error(Blame::user, {"micro_batches = 50", "only 20 samples"}, [&] { run("pipeline"); });
  EXPECT_EQ(observer.steps, 0);
}

TEST_F(Training, PlansFromFiles) {
  const Model model = build_model(experiment, data);
  const auto file = std::filesystem::temp_directory_path() / "trireme_trainer_test_plan.json";
  Plan plan = named_plan("hybrid:tensor", model, Cluster::uniform(4), experiment.batch, {});
  plan.name = "mine";
  std::ofstream(file) << to_json(plan, model).dump();
  const Plan read = make_plan(file.string(), experiment, model, 2);
  EXPECT_EQ(read.devices, 4);
  EXPECT_EQ(read.name, "mine");
  std::filesystem::remove(file);
}

TEST_F(Training, PipelinesAreBalancedByMeasurement) {
  const Model model = build_model(experiment, data);
  const Plan plan = make_plan("pipeline", experiment, model, 2);
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.devices, 2);
  EXPECT_EQ(make_plan("single", experiment, model, 4).devices, 1);
}

TEST_F(Training, HandsOutItsWeights) {
  experiment.length = {3, Length::Unit::steps};
  const RunResult r = run("tensor", 2);
  EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_EQ(observer.weights.size(), 1u);
  const Weights& weights = observer.weights[0];
  const Model model = build_model(experiment, data);
  EXPECT_TRUE(match_weights(model, weights.tensors, {}, "the run").is_complete());
  for (const auto& [name, tensor] : weights.tensors) EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
  EXPECT_EQ(make_model(spec_from_text(weights.metadata.at(kModelKey), "the run")).fingerprint(), model.fingerprint());
  // A run that begins with these weights draws none.
  RunSpec second = experiment;
  second.length = {1, Length::Unit::steps};
  const Model tuned = model.with_initial_values(
      {.tensors = match_weights(model, weights.tensors, {}, "the run").tensors, .report = ""});
  const RunResult more = train(second, tuned, data, make_plan("data", second, model, 2), observer, interrupted);
  EXPECT_LT(more.curve.at(0).loss, 0.97 * r.curve.at(0).loss);
}

TEST_F(Training, SavesNoWeightsWhereTheyAreNotWanted) {
  experiment.length = {2, Length::Unit::steps};
  experiment.save_weights = false;
  const RunResult r = run();
  EXPECT_EQ(r.status, RunStatus::ok);
  EXPECT_TRUE(observer.weights.empty());
  EXPECT_TRUE(std::none_of(r.warnings.begin(), r.warnings.end(),
                           [](const std::string& w) { return w.find("weights") != w.npos; }));
}

TEST_F(Training, KeepsTheRunWhereTheWeightsCannotBeWritten) {
  struct Full : TrainObserver {
    void on_weights(const Weights&) override {
      fail_run({"weights.safetensors", "cannot be written", "no space", "free some"});
    }
  } full;
  experiment.length = {2, Length::Unit::steps};
  const Model model = build_model(experiment, data);
  const RunResult r = train(experiment, model, data, make_plan("data", experiment, model, 2), full, interrupted);
  EXPECT_EQ(r.status, RunStatus::ok);
  EXPECT_THAT(r.warnings, ::testing::Contains(::testing::AllOf(HasSubstr("the trained weights are not saved: "),
                                                               HasSubstr("no space"))));
}

TEST_F(Training, ATimedOutRunKeepsItsWeights) {
  experiment.length = {100000, Length::Unit::steps};
  experiment.time_limit = 0.2;
  EXPECT_EQ(run().status, RunStatus::timed_out);
  EXPECT_EQ(observer.weights.size(), 1u);
}

TEST_F(Training, AnInterruptedRunKeepsItsWeights) {
  experiment.length = {100000, Length::Unit::steps};
  experiment.evaluate_every = experiment.length;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    interrupted = true;
  });
  const RunResult r = run("pipeline", 2);
  user.join();
  EXPECT_EQ(r.status, RunStatus::interrupted);
  ASSERT_EQ(observer.weights.size(), 1u);
  EXPECT_TRUE(match_weights(build_model(experiment, data), observer.weights[0].tensors, {}, "the run").is_complete());
}

}  // namespace
}  // namespace trireme::test_support
