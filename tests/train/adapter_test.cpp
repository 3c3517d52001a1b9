// When a run changes its plan: the adapter with made-up times, and whole runs that change theirs.
#include "train/adapter.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>

#include "../base/expect_error.h"
#include "base/random.h"
#include "memory_data.h"
#include "plan/named.h"
#include "train/link_forecaster.h"
#include "train/trainer.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kFast = 125e6, kSlow = kFast / 20;  // bytes/s

/// Two plans: one that sends much, one that computes for longer.
class TwoPlans final : public Forecaster {
 public:
  TwoPlans() {
    for (const char* name : {"talker", "thinker"}) plans_[name].name = name;
  }
  static double seconds(const std::string& name, double bandwidth) {
    return name == "talker" ? 0.100 + 2.5e6 / bandwidth : 0.180 + 0.05e6 / bandwidth;  // 0.12 and 0.50; 0.18 and 0.19
  }
  std::vector<Forecast> forecasts(const LinkEstimate& links, const std::string&) override {
    ++asked;
    std::vector<Forecast> all;
    for (const char* name : {"talker", "thinker"}) all.push_back({name, seconds(name, links.bandwidth) * error[name], bytes_to_move});
    return all;
  }
  const Plan& plan(const std::string& name) const override { return plans_.at(name); }

  int64_t bytes_to_move = 0;
  int asked = 0;
  std::map<std::string, double> error{{"talker", 1}, {"thinker", 1}};

 private:
  std::map<std::string, Plan> plans_;
};

struct World {
  TwoPlans forecaster;
  std::function<double(int64_t step)> bandwidth = [](int64_t) { return kFast; };
  std::function<double(int64_t step)> noise = [](int64_t) { return 1.0; };
  double slowness = 1;  ///< of everything, against the forecasts
  std::string plan = "talker";
  int probes = 0;
  std::vector<int64_t> changes;
  std::vector<std::string> reasons;

  /// A run in which wishes come true with the next step.
  void run(int64_t steps, const AdaptationOptions& options = {}) {
    PlanAdapter adapter(forecaster, plan, {1e-4, kFast}, options);
    int count = 0;
    bool probes_next = false;
    for (int64_t step = 1; step <= steps; ++step) {
      MeasuredStep measured{.step = step, .steps_left = steps - step, .seconds = 0, .plan = count, .links = {}};
      measured.seconds = slowness * TwoPlans::seconds(plan, bandwidth(step)) * noise(step);
      if (probes_next) measured.links = LinkEstimate{1e-4, bandwidth(step)};
      const Adapter::Wish wish = adapter.after_step(measured);
      probes_next = wish.links;
      probes += wish.links ? 1 : 0;
      if (!wish.change) continue;
      EXPECT_NE(wish.change->plan.name, plan);
      plan = wish.change->plan.name;
      changes.push_back(step);
      reasons.push_back(wish.change->reason);
      ++count;
    }
  }
};

/// Uniform in 1 +- 0.2.
std::function<double(int64_t)> noise_of(uint64_t seed) {
  return [random = Philox(seed)](int64_t step) { return 0.8 + 0.4 * random.uniform(uint64_t(step)); };
}

TEST(PlanAdapter, ConstantTimesChangeNothing) {
  World world;
  world.run(500);
  EXPECT_EQ(world.probes, 0);
  EXPECT_TRUE(world.changes.empty());
  EXPECT_EQ(world.forecaster.asked, 1) << "once, before the run";
}

TEST(PlanAdapter, ASlowLinkChangesThePlanOnce) {
  World world;
  world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  world.run(1000);
  ASSERT_EQ(world.changes.size(), 1u);
  EXPECT_GE(world.changes[0], 200);
  EXPECT_LE(world.changes[0], 220);
  EXPECT_EQ(world.plan, "thinker");
  EXPECT_THAT(world.reasons[0], HasSubstr("thinker is expected to take"));
}

TEST(PlanAdapter, ALinkThatRecoversIsSeenByAPlanThatTalks) {
  World world;
  world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  world.run(400);
  ASSERT_EQ(world.plan, "thinker");
  // the thinker's steps hardly change: nobody notices, and nothing is lost by it but what the talker would save
  World back;
  back.plan = "talker";
  back.bandwidth = [](int64_t step) { return step < 100 ? kFast : step < 160 ? kFast / 4 : kFast; };
  back.run(400);
  EXPECT_TRUE(back.changes.empty()) << "a quarter of the bandwidth: 0.18 s is what the other takes too";
  EXPECT_EQ(back.probes, 2) << "when it slowed down and when it recovered";
}

TEST(PlanAdapter, NoiseDoesNotMakeItFlap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    World constant;
    constant.noise = noise_of(seed);
    constant.run(2000);
    EXPECT_TRUE(constant.changes.empty());
    World slowing;
    slowing.noise = noise_of(seed);
    slowing.bandwidth = [](int64_t step) { return step < 300 ? kFast : kSlow; };
    slowing.run(2000);
    EXPECT_EQ(slowing.changes.size(), 1u);
    EXPECT_EQ(slowing.plan, "thinker");
  }
}

TEST(PlanAdapter, NothingChangesNearTheEnd) {
  World world;
  world.forecaster.bytes_to_move = int64_t(100e6);  // 16 s over the slow link; a change saves 0.31 s a step
  world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  world.run(240);
  EXPECT_EQ(world.probes, 1);
  EXPECT_TRUE(world.changes.empty());
  World longer;
  longer.forecaster.bytes_to_move = world.forecaster.bytes_to_move;
  longer.bandwidth = world.bandwidth;
  longer.run(300);
  EXPECT_EQ(longer.changes.size(), 1u);
}

TEST(PlanAdapter, SmallGainsAreNotWorthAChange) {
  World world;
  world.forecaster.error["thinker"] = 0.63;  // of 0.18: 0.114 s against 0.12 s is less than 6 % ...
  world.slowness = 1.4;                      // ... which a machine that is slower all over does not change
  world.run(2000, {.gain = 0.06});
  EXPECT_GT(world.probes, 0);
  EXPECT_TRUE(world.changes.empty());
}

/// Forecasts that are all wrong by the same factor, and one that is wrong by itself.
TEST(PlanAdapter, WrongForecastsAreFoundOut) {
  World all;
  all.slowness = 1.7;
  all.run(1000);
  EXPECT_EQ(all.probes, 1) << "what is measured becomes what is expected";
  EXPECT_TRUE(all.changes.empty());
  World one;
  one.forecaster.error["thinker"] = 0.4;  // 0.18 s as 0.072 s
  one.slowness = 1.5;
  one.run(2000);
  ASSERT_EQ(one.changes.size(), 2u) << "there, and back for good";
  EXPECT_EQ(one.plan, "talker");
  EXPECT_GE(one.changes[1] - one.changes[0], AdaptationOptions{}.settling + AdaptationOptions{}.window * AdaptationOptions{}.windows);
}

// ------------------------------------------------------------------------------------------------ runs

struct Losses : TrainObserver {
  std::vector<double> losses;
  std::vector<Weights> weights;
  void on_step(const StepReport& report) override { losses.push_back(report.point.loss); }
  void on_weights(const Weights& trained) override { weights.push_back(trained); }
};

/// Wishes for given plans after given steps, and for the links.
struct Script final : Adapter {
  std::vector<std::pair<int64_t, Plan>> plans;
  size_t next = 0;
  int64_t probe_after = 0;
  std::vector<LinkEstimate> links;
  Wish after_step(const MeasuredStep& step) override {
    if (step.links) links.push_back(*step.links);
    Wish wish{.links = step.step == probe_after, .change = {}};
    if (next < plans.size() && step.step >= plans[next].first) wish.change = PlanSwitch{plans[next++].second, "the script says so"};
    return wish;
  }
};

class ChangingPlans : public ::testing::Test {
 protected:
  ChangingPlans() {
    data.train = train_set;
    data.test = test_set;
    experiment.file = "tiny.toml";
    experiment.batch = 20;
    experiment.length = {60, Length::Unit::steps};
    experiment.evaluate_every = {10, Length::Unit::steps};
    experiment.model_name = "mlp";
    experiment.model_options = {{"hidden", 32}};
    experiment.precision = Precision::fp64;
    experiment.optimizer = {.kind = OptimizerConfig::Kind::adamw, .learning_rate = 0.01, .epsilon = 1e-3, .ema = 0.9};
    train_set->pause = std::chrono::milliseconds(1);  // so that the adapter is heard before the run is over
  }
  void TearDown() override {
    for (int d = 0; d < 4; ++d) EXPECT_EQ(memory_use(d).total(), 0) << "device " << d << " still holds memory";
  }
  Plan plan(const std::string& name, int devices) { return make_plan(name, experiment, build_model(experiment, data), devices); }
  RunResult run(const Plan& first, Losses& observer, Adapter* adapter) {
    return train(experiment, build_model(experiment, data), data, first, observer, interrupted, adapter);
  }

  std::shared_ptr<MemoryDataset> train_set = std::make_shared<MemoryDataset>(210, 1), test_set = std::make_shared<MemoryDataset>(90, 2);
  TaskData data;
  Experiment experiment;
  std::atomic<bool> interrupted{false};
};

TEST_F(ChangingPlans, CurveEvaluationsAndWeightsAreThoseOfOneDevice) {
  for (int loading_threads : {0, 2}) {
    experiment.loading_threads = loading_threads;
    Losses expected, actual;
    const RunResult single = run(plan("single", 1), expected, nullptr);
    Script script;
    script.plans = {{4, plan("pipeline", 2)}, {15, plan("single", 1)}, {25, plan("data", 3)}, {35, plan("tensor", 2)},
                    {40, plan("zero3", 2)}};
    script.probe_after = 8;
    const RunResult r = run(plan("data", 2), actual, &script);
    ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
    // a coordinator that gets no core is late with its wishes
    ASSERT_GE(r.changes.size(), 2u);
    ASSERT_LE(r.changes.size(), script.next);
    EXPECT_EQ(r.plan.find("data 2 -> "), 0u) << r.plan;
    EXPECT_EQ(r.devices, r.changes.size() < 3 ? 2 : 3);
    EXPECT_EQ(int(r.memory.size()), r.devices);
    for (const LinkEstimate& links : script.links) EXPECT_TRUE(links.bandwidth == 0 || links.bandwidth > 1e6) << "one worker has none";
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
    for (size_t s = 0; s < 60; ++s) EXPECT_NEAR(actual.losses[s], expected.losses[s], 1e-10 * std::abs(expected.losses[s])) << s;
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

TEST_F(ChangingPlans, APlanThatDoesNotFitEndsTheRun) {
  Losses observer;
  const auto most = [&](const std::string& name, int devices) {
    int64_t bytes = 0;
    for (const MemoryUse& use : run(plan(name, devices), observer, nullptr).memory) bytes = std::max(bytes, use.peak);
    return bytes;
  };
  const int64_t little = most("zero3", 4), much = most("single", 1);
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

TEST_F(ChangingPlans, ForecastsFollowTheLinks) {
  expect_error(Blame::user, {"adapt", "no links", "[cluster.link]"},
               [&] { LinkForecaster(experiment, build_model(experiment, data), plan("data", 2)); });
  experiment.links = LinkSchedule{{.bandwidth = 1e9, .latency = 1e-5}, {}};
  experiment.private_replicas = true;
  experiment.devices = {2};
  experiment.strategies = {"single", "data", "tensor", "hybrid", "pipedream", "data,compression=bf16"};
  const Model model = build_model(experiment, data);
  LinkForecaster forecaster(experiment, model, plan("data", 2));
  EXPECT_EQ(forecaster.candidates(), (std::vector<std::string>{"data", "single", "tensor"}))
      << "hybrids take 4, the others have other curves";
  const auto of = [&](const std::string& name, double bandwidth) {
    for (const Forecast& f : forecaster.forecasts({1e-5, bandwidth}, "data"))
      if (f.name == name) return f;
    return Forecast{};
  };
  const int64_t bytes = model.parameter_count() * 8;
  EXPECT_NEAR(of("data", 1e6).step_seconds - of("data", 1e9).step_seconds, double(bytes) / 1e6, 0.2 * double(bytes) / 1e6);
  EXPECT_NEAR(of("single", 1e6).step_seconds, of("single", 1e9).step_seconds, 1e-9);
  EXPECT_EQ(of("tensor", 1e9).bytes_to_move, 0) << "each worker has all of it";
}

}  // namespace
}  // namespace trireme::testing
