// Whole runs that change their plan, by a script or by an adapter.
#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/resume.h"
#include "experiment/make_plan.h"
#include "plan/named.h"
#include "tiny_training.h"
#include "train/adapter.h"
#include "train/forecaster.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

struct Losses : TrainObserver {
  std::vector<double> losses;
  std::vector<Weights> weights;
  void on_step(const StepReport& report) override { losses.push_back(report.point.loss); }
  void on_weights(const Weights& trained) override { weights.push_back(trained); }
};

/// Asks for given plans after given steps, and for a measurement of the links.
struct Script final : Adapter {
  std::vector<std::pair<int64_t, Plan>> plans;
  size_t next = 0;
  int64_t probe_after = 0;
  std::vector<LinkEstimate> links;
  Wish after_step(const MeasuredStep& step) override {
    if (step.links) links.push_back(*step.links);
    Wish wish{.links = step.step == probe_after, .change = {}};
    if (next < plans.size() && step.step >= plans[next].first)
      wish.change = PlanSwitch{plans[next++].second, "the script says so"};
    return wish;
  }
};

class ChangingPlans : public TinyTraining {
 protected:
  ChangingPlans() {
    experiment.length = {60, Length::Unit::steps};
    experiment.evaluate_every = {10, Length::Unit::steps};
    experiment.precision = Precision::fp64;
    experiment.optimizer = {.kind = &kAdamW, .learning_rate = 0.01, .epsilon = 1e-3, .ema = 0.9};
    train_set->pause = std::chrono::milliseconds(1);  // slow steps, so that the adapter acts before the end of the run
  }
  Plan plan(const std::string& name, int devices) {
    return make_plan(name, experiment, build_model(experiment, data), devices);
  }
  RunResult run(const Plan& first, Losses& observer, Adapter* adapter) {
    return train(experiment, build_model(experiment, data), data, first, observer, interrupted, adapter);
  }
  int64_t most_memory(const Plan& plan) {
    Losses observer;
    int64_t bytes = 0;
    for (const MemoryUse& use : run(plan, observer, nullptr).memory) bytes = std::max(bytes, use.peak);
    return bytes;
  }
};

TEST_F(ChangingPlans, CurveEvaluationsAndWeightsAreThoseOfOneDevice) {
  for (int loading_threads : {0, 2}) {
    experiment.loading_threads = loading_threads;
    Losses expected, actual;
    const RunResult single = run(plan("single", 1), expected, nullptr);
    Script script;
    script.plans = {{4, plan("pipeline", 2)},
                    {15, plan("single", 1)},
                    {25, plan("data", 3)},
                    {35, plan("tensor", 2)},
                    {40, plan("zero3", 2)}};
    script.probe_after = 8;
    const RunResult r = run(plan("data", 2), actual, &script);
    ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
    // On a busy machine the coordinator's wishes come late.
    ASSERT_GE(r.changes.size(), 2u);
    ASSERT_LE(r.changes.size(), script.next);
    EXPECT_EQ(r.plan.find("data 2 -> "), 0u) << r.plan;
    EXPECT_EQ(r.devices, r.changes.size() < 3 ? 2 : 3);
    EXPECT_EQ(int(r.memory.size()), r.devices);
    for (const LinkEstimate& links : script.links)
      EXPECT_TRUE(links.bandwidth == 0 || links.bandwidth > 1e6) << "one worker has none";
    int64_t before = 0;
    for (const PlanChange& change : r.changes) {
      EXPECT_GT(change.step, before);
      EXPECT_GT(change.seconds, 0);
      EXPECT_EQ(change.reason, "the script says so");
      before = change.step;
    }
    EXPECT_EQ(r.changes[0].from, "data 2");
    EXPECT_EQ(r.changes[1].from, r.changes[0].to);
    ASSERT_EQ(actual.losses.size(), 60u);
    for (size_t s = 0; s < 60; ++s)
      EXPECT_NEAR(actual.losses[s], expected.losses[s], 1e-10 * std::abs(expected.losses[s])) << s;
    ASSERT_EQ(r.evaluations.size(), single.evaluations.size());
    for (size_t e = 0; e < r.evaluations.size(); ++e) {
      EXPECT_EQ(r.evaluations[e].step, single.evaluations[e].step);
      EXPECT_NEAR(r.evaluations[e].loss, single.evaluations[e].loss, 1e-9);
    }
    ASSERT_EQ(actual.weights.size(), 1u);
    for (const auto& [name, tensor] : expected.weights.at(0).tensors)
      EXPECT_TRUE(at::allclose(actual.weights[0].tensors.at(name), tensor, 1e-9, 1e-12)) << name;
    for (size_t i = 1; i < r.curve.size(); ++i) EXPECT_GE(r.curve[i].seconds, r.curve[i - 1].seconds);
    ASSERT_TRUE(r.timeline);
  }
}

/// Plan changes between two checkpoints and at the step of one. Each checkpoint is complete, and a run that resumes
/// from it has the curve of one device.
TEST_F(ChangingPlans, CheckpointsAreWrittenUnderEveryPlan) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("adaptive_run_test." + std::to_string(::getpid()));
  experiment.checkpoint = {
      .every = {5, Length::Unit::steps}, .keep = 0, .best = {}, .folder = {}, .where = "tiny.toml: checkpoint"};
  const Model model = build_model(experiment, data);
  Losses expected, actual;
  run(plan("single", 1), expected, nullptr);
  Script script;
  script.plans = {{4, plan("pipeline", 2)},
                  {12, plan("zero3", 3)},
                  {20, plan("single", 1)},
                  {30, plan("data", 4)},
                  {40, plan("tensor", 2)}};
  const RunResult r = train(experiment, model, data, plan("data", 2), actual, interrupted, &script,
                            {.folder = folder, .resumed = {}, .files = nullptr});
  ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_GE(r.changes.size(), 2u);
  ASSERT_TRUE(r.checkpoints);
  EXPECT_EQ(std::pair(r.checkpoints->written, r.checkpoints->failed), std::pair(int64_t{12}, int64_t{0}));
  ASSERT_EQ(actual.losses.size(), 60u);
  for (size_t s = 0; s < 60; ++s)
    EXPECT_NEAR(actual.losses[s], expected.losses[s], 1e-10 * std::abs(expected.losses[s])) << s;
  std::set<std::string> plans;
  for (int64_t step = 5; step < 60; step += 5) {
    Resumption resumption = open_resumption(folder / checkpoint_name(step), experiment, model, data);
    plans.insert(resumption.checkpoint.index.plan);
    Losses rest;
    const RunResult resumed = train(experiment, model, data, plan("data", 2), rest, interrupted, nullptr,
                                    {.folder = {}, .resumed = std::move(resumption.checkpoint), .files = nullptr});
    ASSERT_EQ(resumed.status, RunStatus::ok) << resumed.reason;
    ASSERT_EQ(rest.losses.size(), size_t(60 - step));
    for (size_t s = 0; s < rest.losses.size(); ++s)
      EXPECT_NEAR(rest.losses[s], expected.losses[s + size_t(step)],
                  1e-10 * std::abs(expected.losses[s + size_t(step)]))
          << step << " " << s;
  }
  EXPECT_GE(plans.size(), 3u) << "checkpoints were written under several plans";
  fs::remove_all(folder);
}

TEST_F(ChangingPlans, APlanThatDoesNotFitEndsTheRun) {
  Losses observer;
  const int64_t little = most_memory(plan("zero3", 4)), much = most_memory(plan("single", 1));
  ASSERT_LT(little, much);
  experiment.device_memory = (little + much) / 2;
  Script script;
  script.plans = {{3, plan("single", 1)}};
  const RunResult r = run(plan("zero3", 4), observer, &script);
  EXPECT_EQ(r.status, RunStatus::does_not_fit) << r.reason;
  EXPECT_FALSE(r.curve.empty());
}

TEST_F(ChangingPlans, AStopEndsAChangeToo) {
  experiment.length = {100000, Length::Unit::steps};
  struct Stopping final : Adapter {
    explicit Stopping(Plan p, std::atomic<bool>& i) : plan(std::move(p)), interrupted(i) {}
    Wish after_step(const MeasuredStep& step) override {
      if (step.step < 5) return {};
      interrupted = true;
      return {.links = false, .change = PlanSwitch{plan, "too late"}};
    }
    Plan plan;
    std::atomic<bool>& interrupted;
  } adapter(plan("pipeline", 2), interrupted);
  Losses observer;
  const RunResult r = run(plan("data", 2), observer, &adapter);
  EXPECT_EQ(r.status, RunStatus::interrupted);
  EXPECT_EQ(observer.weights.size(), 1u);
}

const Forecast* find(const Outlook& outlook, const std::string& name) {
  const auto found = std::find_if(outlook.forecasts.begin(), outlook.forecasts.end(),
                                  [&](const Forecast& f) { return f.name == name; });
  return found == outlook.forecasts.end() ? nullptr : &*found;
}

TEST_F(ChangingPlans, ForecastsFollowTheLinks) {
  experiment.links = LinkSchedule{{.bandwidth = 1e9, .latency = 1e-5}, {}};
  experiment.private_replicas = true;
  experiment.devices = {2};
  experiment.strategies = {"single", "data", "tensor", "hybrid", "pipedream", "data,compression=bf16"};
  const Model model = build_model(experiment, data);
  PlanForecaster forecaster(experiment, model, plan("data", 2));
  const auto of = [&](const std::string& name, double bandwidth) {
    const Outlook outlook = forecaster.outlook({.links = {1e-5, bandwidth}}, "data");
    EXPECT_GT(outlook.seconds, 0);
    for (const Forecast& f : outlook.forecasts) {
      const Plan& candidate = forecaster.plan(f.name);
      EXPECT_NO_THROW(validate(candidate, model, experiment.batch, f.name));
      EXPECT_EQ(int(f.workers.size()), candidate.devices);
      EXPECT_EQ(candidate.compression.kind, Compression::Kind::none) << "another curve";
      EXPECT_NE(candidate.schedule, "pipedream") << "another curve";
    }
    const Forecast* forecast = find(outlook, name);
    return forecast ? *forecast : Forecast{};
  };
  const int64_t bytes = model.parameter_count() * 8;
  EXPECT_NEAR(of("data", 1e6).step_seconds - of("data", 1e9).step_seconds, double(bytes) / 1e6,
              0.2 * double(bytes) / 1e6);
  EXPECT_NEAR(of("single", 1e6).step_seconds, of("single", 1e9).step_seconds, 1e-9);
  EXPECT_EQ(of("tensor", 1e9).bytes_to_move, 0) << "each worker has all of it";
  EXPECT_EQ(of("hybrid:tensor", 1e9).name, "") << "takes 4";
}

/// Also without emulated links: then the links are those of this process.
TEST_F(ChangingPlans, ForecastsFollowWorkersAndMemory) {
  experiment.devices = {3};
  experiment.strategies = {"data", "pipeline"};
  const Model model = build_model(experiment, data);
  PlanForecaster forecaster(experiment, model, plan("data", 3));
  const Conditions usual = forecaster.at_first();
  const Outlook first = forecaster.outlook(usual, "data");
  const Forecast equal = *find(first, "data");
  EXPECT_EQ(equal.missing, 0);
  ASSERT_EQ(equal.compute.size(), 3u);
  const Forecast* single = find(first, "one device");
  ASSERT_TRUE(single) << "the exact planner's: this model is too small for more";

  Conditions slow = usual;
  slow.slowness = {4, 1, 1};
  const Outlook outlook = forecaster.outlook(slow, "data");
  const Forecast* same = find(outlook, "data");
  EXPECT_GT(same->compute[0], 1.5 * equal.compute[0])
      << "4 times as long where each has a core, less where they take turns";
  EXPECT_GT(same->step_seconds, equal.step_seconds);
  const Forecast* alone = find(outlook, "one device on worker 1");
  ASSERT_TRUE(alone) << "worker 0 is slow";
  EXPECT_NEAR(alone->step_seconds, single->step_seconds, 0.01 * single->step_seconds);
  const Forecast* two = find(outlook, "data 2 on workers 1, 2");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->bytes_to_move, 0) << "both have all weights";
  const Forecast* unequal = find(outlook, "data 3, speeds 0.25:1:1");
  ASSERT_TRUE(unequal);
  EXPECT_EQ(forecaster.plan(unequal->name).speeds, (std::vector<double>{0.25, 1, 1}));
  EXPECT_TRUE(find(forecaster.outlook(slow, unequal->name), unequal->name)) << "the current plan stays a candidate";
  EXPECT_FALSE(find(forecaster.outlook(usual, "data"), unequal->name));

  Conditions small = usual;
  small.memory = 1000;
  const Outlook tight = forecaster.outlook(small, "data");
  const int64_t peak = most_memory(plan("data", 3));
  EXPECT_NEAR(double(find(tight, "data")->missing), double(peak - 1000), 0.1 * double(peak));
}

/// Plans with unequal shares, with fewer and with other workers: the curve is that of one device.
TEST_F(ChangingPlans, TheCurveDoesNotDependOnTheRemainingWorkers) {
  Losses expected, actual;
  run(plan("single", 1), expected, nullptr);
  experiment.worker_changes = {{.worker = 1, .at_step = 10, .slower = 3}, {.worker = 1, .at_step = 45, .slower = 1}};
  struct Moving final : Adapter {
    std::vector<PlanSwitch> plans;
    size_t next = 0;
    Wish after_step(const MeasuredStep& step) override {
      if (next == plans.size() || step.step < 8 * int64_t(next + 1)) return {};
      return {.change = plans[next++]};
    }
  } adapter;
  adapter.plans = {{plan("data,speeds=1:0.3", 2), "slow", {}},
                   {plan("single", 1), "slower", {1}},
                   {plan("pipeline", 2), "back", {1, 0}}};
  const RunResult r = run(plan("data", 2), actual, &adapter);
  ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_GE(r.changes.size(), 2u);
  EXPECT_EQ(r.changes[1].to, "one device on worker 1");
  ASSERT_EQ(actual.losses.size(), 60u);
  for (size_t s = 0; s < 60; ++s)
    EXPECT_NEAR(actual.losses[s], expected.losses[s], 1e-10 * std::abs(expected.losses[s])) << s;
  for (const auto& [name, tensor] : expected.weights.at(0).tensors)
    EXPECT_TRUE(at::allclose(actual.weights.at(0).tensors.at(name), tensor, 1e-9, 1e-12)) << name;
}

TEST_F(ChangingPlans, AnEmulatedSlowWorkerComputesForLonger) {
  experiment.model_options = {{"hidden", 128}};
  experiment.worker_changes = {{.worker = 1, .at_step = 30, .slower = 10}};
  struct Listening final : Adapter {
    std::vector<double> before, after;  ///< seconds of worker 1
    double other = 1e9;                 ///< seconds of worker 0 in its shortest step after the change
    Wish after_step(const MeasuredStep& step) override {
      EXPECT_EQ(step.compute.size(), 2u);
      if (step.step > 5) (step.step <= 30 ? before : after).push_back(step.compute[1]);
      if (step.step > 30) other = std::min(other, step.compute[0]);
      return {};
    }
  } adapter;
  Losses observer;
  run(plan("data", 2), observer, &adapter);
  ASSERT_EQ(adapter.after.size(), 30u);
  ASSERT_FALSE(adapter.before.empty());
  std::sort(adapter.after.begin(), adapter.after.end());
  // Compared with the shortest steps, because other programs only make steps longer.
  const double after = adapter.after[adapter.after.size() / 2];
  EXPECT_GT(after, 4 * *std::min_element(adapter.before.begin(), adapter.before.end()));
  EXPECT_GT(after, 4 * adapter.other);
}

/// When memory shrinks during a run, a run that keeps its plan ends; a run that adapts changes to a plan that fits.
TEST_F(ChangingPlans, LessMemory) {
  experiment.devices = {4};
  experiment.strategies = {"single", "data", "zero3"};
  experiment.model_options = {{"hidden", 256}};
  experiment.private_replicas = true;
  const Plan data4 = plan("data", 4), zero = plan("zero3", 4);
  const int64_t little = most_memory(zero), much = most_memory(data4);
  ASSERT_LT(double(little), 0.8 * double(much));
  Losses expected, still, adaptive, hopeless;
  run(plan("single", 1), expected, nullptr);
  experiment.memory_changes = {{.at_step = 10, .limit = (little + much) / 2}};
  EXPECT_EQ(run(data4, still, nullptr).status, RunStatus::does_not_fit);
  EXPECT_LT(still.losses.size(), 60u);

  const Model model = build_model(experiment, data);
  PlanForecaster forecaster(experiment, model, data4);
  // Ignores times; this test is about memory only.
  PlanAdapter adapter(forecaster, data4.name, forecaster.at_first(), {.off = 1e9, .unequal = 1e9, .probes = false});
  const RunResult r = run(data4, adaptive, &adapter);
  ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_EQ(r.changes.size(), 1u);
  EXPECT_GE(r.changes[0].step, 10);
  EXPECT_THAT(r.changes[0].reason, HasSubstr("\"data\" lacks "));
  Losses fits;
  EXPECT_EQ(run(forecaster.plan(adapter.current()), fits, nullptr).status, RunStatus::ok) << "with the limit enforced";
  ASSERT_EQ(adaptive.losses.size(), 60u);
  for (size_t s = 0; s < 60; ++s)
    EXPECT_NEAR(adaptive.losses[s], expected.losses[s], 1e-10 * std::abs(expected.losses[s])) << s;

  experiment.memory_changes = {{.at_step = 10, .limit = 2000}};
  PlanAdapter no_way(forecaster, data4.name, forecaster.at_first(), {.off = 1e9, .unequal = 1e9, .probes = false});
  const RunResult goes_on = run(data4, hopeless, &no_way);
  EXPECT_EQ(goes_on.status, RunStatus::ok) << goes_on.reason;
  EXPECT_TRUE(goes_on.changes.empty());
  EXPECT_EQ(std::count_if(goes_on.warnings.begin(), goes_on.warnings.end(),
                          [](const std::string& w) { return w.find("no plan fits") != w.npos; }),
            1);
}

}  // namespace
}  // namespace trireme::test_support
