// When the adapter changes the plan of a run, with step times that the test makes up.
#include "train/adapter.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/random.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

constexpr double kFast = 125e6, kSlow = kFast / 20;  // bytes/s

/// A plan with given costs.
struct MadeUpPlan {
  std::vector<int> workers;     ///< by rank
  std::vector<double> compute;  ///< by rank: seconds of a step on a worker of the usual speed
  double sent = 0;              ///< bytes, exposed
  int64_t memory = 0;           ///< bytes of each worker
};

double slowness_of(const std::vector<double>& slowness, int worker) {
  return size_t(worker) < slowness.size() ? slowness[size_t(worker)] : 1;
}

double step_seconds(const MadeUpPlan& plan, double bandwidth, const std::vector<double>& compute) {
  return *std::max_element(compute.begin(), compute.end()) + plan.sent / bandwidth;
}

class MadeUpPlans final : public Forecaster {
 public:
  explicit MadeUpPlans(std::map<std::string, MadeUpPlan> p) : plans(std::move(p)) {
    for (const auto& entry : plans) {
      plans_[entry.first].name = entry.first;
      error[entry.first] = 1;
    }
  }
  Outlook outlook(const Conditions& now, const std::string&) override {
    ++asked;
    Outlook outlook;
    for (const auto& [name, plan] : plans) {
      Forecast forecast{.name = name, .bytes_to_move = bytes_to_move, .workers = plan.workers};
      for (size_t rank = 0; rank < plan.compute.size(); ++rank)
        forecast.compute.push_back(plan.compute[rank] * slowness_of(now.slowness, plan.workers[rank]) * error[name]);
      forecast.step_seconds = step_seconds(plan, now.links.bandwidth / error[name], forecast.compute);
      if (now.memory > 0) forecast.missing = std::max<int64_t>(0, plan.memory - now.memory);
      outlook.forecasts.push_back(forecast);
    }
    return outlook;
  }
  const Plan& plan(const std::string& name) const override { return plans_.at(name); }

  const std::map<std::string, MadeUpPlan> plans;
  int64_t bytes_to_move = 0;
  int asked = 0;
  std::map<std::string, double> error;  ///< factor of forecasts, by plan

 private:
  std::map<std::string, Plan> plans_;
};

/// One plan sends much: 0.12 s over fast links, 0.50 s over slow ones. The other computes longer: 0.18 s and 0.19 s.
std::map<std::string, MadeUpPlan> communicator_and_computer() {
  return {{"communicating", {{0, 1}, {0.1, 0.1}, 2.5e6, 300}}, {"computing", {{0, 1}, {0.18, 0.18}, 0.05e6, 200}}};
}

/// The same work, 0.2 s, divided in different ways.
std::map<std::string, MadeUpPlan> ways_to_share() {
  return {{"equal", {{0, 1}, {0.1, 0.1}, 0.5e6, 300}},
          {"three to one", {{0, 1}, {0.15, 0.05}, 0.5e6, 300}},
          {"worker 0 alone", {{0}, {0.2}, 0, 600}},
          {"worker 1 alone", {{1}, {0.2}, 0, 600}}};
}

struct World {
  explicit World(std::map<std::string, MadeUpPlan> plans = communicator_and_computer(),
                 std::string first = "communicating")
      : forecaster(std::move(plans)), plan(std::move(first)) {}

  MadeUpPlans forecaster;
  std::function<double(int64_t step)> bandwidth = [](int64_t) { return kFast; };
  std::function<double(int64_t step)> noise = [](int64_t) { return 1.0; };
  std::function<double(int64_t step)> machine = [](int64_t) { return 1.0; };  ///< factor of all times
  std::function<std::vector<double>(int64_t step)> slowness = [](int64_t) { return std::vector<double>(); };
  std::function<double(int64_t step, int worker)> worker_noise = [](int64_t, int) { return 1.0; };
  std::function<int64_t(int64_t step)> memory = [](int64_t) { return 0; };
  std::function<double(double bandwidth)> measured_bandwidth = [](double bandwidth) { return bandwidth; };
  std::string plan;
  int probes = 0;
  std::vector<int64_t> changes;
  std::vector<PlanSwitch> switches;
  std::vector<std::string> warnings;
  Conditions known;

  MeasuredStep measure(int64_t step) const {
    const MadeUpPlan& current = forecaster.plans.at(plan);
    MeasuredStep measured{.step = step, .memory = memory(step)};
    const double all = machine(step) * noise(step);
    for (size_t rank = 0; rank < current.compute.size(); ++rank) {
      const int worker = current.workers[rank];
      measured.compute.push_back(current.compute[rank] * slowness_of(slowness(step), worker) * all *
                                 worker_noise(step, worker));
    }
    measured.seconds = step_seconds(current, bandwidth(step) / all, measured.compute);
    return measured;
  }

  /// A run that applies the adapter's wishes in the next step.
  void run(int64_t steps, const AdaptationOptions& options = {}) {
    PlanAdapter adapter(forecaster, plan, {.links = {1e-4, kFast}, .memory = memory(0)}, options);
    int count = 0;
    bool probes_next = false;
    for (int64_t step = 1; step <= steps; ++step) {
      MeasuredStep measured = measure(step);
      measured.steps_left = steps - step;
      measured.plan = count;
      if (probes_next)
        measured.links = LinkEstimate{1e-4, measured.compute.size() > 1 ? measured_bandwidth(bandwidth(step)) : 0};
      const Adapter::Wish wish = adapter.after_step(measured);
      probes_next = wish.links;
      probes += wish.links ? 1 : 0;
      if (!wish.warning.empty()) warnings.push_back(wish.warning);
      if (!wish.change) continue;
      EXPECT_NE(wish.change->plan.name, plan);
      plan = wish.change->plan.name;
      EXPECT_EQ(wish.change->workers, forecaster.plans.at(plan).workers);
      changes.push_back(step);
      switches.push_back(*wish.change);
      ++count;
    }
    known = adapter.conditions();
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
  EXPECT_EQ(world.plan, "computing");
  EXPECT_THAT(world.switches[0].reason, HasSubstr("under \"computing\" it is expected to take"));
}

TEST(PlanAdapter, ALinkThatRecoversIsSeenByAPlanThatCommunicates) {
  World world;
  world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  world.run(400);
  ASSERT_EQ(world.plan, "computing");
  // The steps of "computing" hardly change, so the adapter does not notice that the link is fast again. Only the time
  // that "communicating" would save is lost.
  World back;
  back.bandwidth = [](int64_t step) { return step < 100 ? kFast : step < 160 ? kFast / 4 : kFast; };
  back.run(400);
  EXPECT_TRUE(back.changes.empty()) << "a quarter of the bandwidth: 0.18 s is what the other takes too";
  EXPECT_EQ(back.probes, 4) << "twice when it slowed down and twice when it recovered";
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
    EXPECT_EQ(slowing.plan, "computing");
  }
}

TEST(PlanAdapter, NothingChangesNearTheEnd) {
  World world;
  world.forecaster.bytes_to_move = int64_t(100e6);  // 16 s over the slow link; the change saves 0.31 s per step
  world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  world.run(240);
  EXPECT_EQ(world.probes, 2) << "once more, to be sure";
  EXPECT_TRUE(world.changes.empty());
  World longer;
  longer.forecaster.bytes_to_move = world.forecaster.bytes_to_move;
  longer.bandwidth = world.bandwidth;
  longer.run(300);
  EXPECT_EQ(longer.changes.size(), 1u);
}

TEST(PlanAdapter, SmallGainsAreNotWorthAChange) {
  for (const double least : {0.04, 0.06}) {
    World world;
    world.bandwidth = [](int64_t step) { return step < 200 ? kFast : kFast / 3; };  // 0.16 s
    world.forecaster.error["computing"] = 0.84;  // forecast is 0.84 of 0.18 s: 5 % less
    world.run(1000, {.untried = least});
    EXPECT_GT(world.probes, 0);
    EXPECT_EQ(world.changes.empty(), least > 0.05);
  }
}

/// A single disturbed measurement of links is not used.
TEST(PlanAdapter, LinksAreMeasuredUntilTwoAgree) {
  World world;
  world.machine = [](int64_t step) { return step < 200 ? 1.0 : 2.0; };  // steps get slower, so links are measured
  int count = 0;
  world.measured_bandwidth = [&](double) { return kFast * (++count % 2 ? 0.05 : 40); };
  world.run(1000);
  EXPECT_TRUE(world.changes.empty());
  EXPECT_EQ(world.probes, 4) << "then it gives up";
  EXPECT_EQ(world.known.links.bandwidth, kFast);
}

/// All forecasts are wrong by the same factor, or a single one is wrong.
TEST(PlanAdapter, WrongForecastsAreFoundOut) {
  World all;
  all.machine = [](int64_t) { return 1.7; };
  all.run(1000);
  EXPECT_EQ(all.probes, 1) << "what is measured becomes what is expected";
  EXPECT_TRUE(all.changes.empty());
  World one;
  one.forecaster.error["computing"] = 0.4;  // forecast 0.072 s in place of 0.18 s
  one.machine = [](int64_t) { return 1.5; };
  one.bandwidth = [](int64_t step) {
    return step < 200 ? kFast : kFast / 3;
  };  // the communicating plan takes 0.24 s, the computing plan 0.27 s
  one.run(2000);
  ASSERT_EQ(one.changes.size(), 2u) << "there, and back for good";
  EXPECT_EQ(one.plan, "communicating");
  EXPECT_GE(one.changes[1] - one.changes[0],
            AdaptationOptions{}.settling + AdaptationOptions{}.window * AdaptationOptions{}.windows);
}

TEST(PlanAdapter, AMachineThatSlowsDownChangesNothing) {
  World world;
  world.machine = [](int64_t step) { return step < 300 ? 1.0 : step < 330 ? 1.7 : step < 700 ? 3.0 : 1.0; };
  world.run(1000);
  EXPECT_TRUE(world.changes.empty());
  EXPECT_GE(world.probes, 2) << "it might have been the links";
  EXPECT_EQ(world.forecaster.asked, 1) << "forecasts say nothing of that";
  // The same after a change of plan.
  World later;
  later.bandwidth = [](int64_t step) { return step < 200 ? kFast : kSlow; };
  later.machine = [](int64_t step) { return step < 400 || step > 440 ? 1.0 : 3.0; };
  later.run(1000);
  EXPECT_EQ(later.changes.size(), 1u);
  EXPECT_EQ(later.plan, "computing");
  // A slower machine does not change what the adapter knows of the links.
  World both;
  both.machine = [](int64_t step) { return step < 200 ? 1.0 : 2.5; };
  both.bandwidth = [](int64_t step) { return step < 500 ? kFast : kSlow; };
  both.run(1000);
  ASSERT_EQ(both.changes.size(), 1u);
  EXPECT_GE(both.changes[0], 500);
}

// -- workers

TEST(PlanAdapter, ASlowWorkerGetsASmallerShare) {
  World world(ways_to_share(), "equal");
  world.slowness = [](int64_t step) { return std::vector<double>{1, step < 200 ? 1.0 : 3.0}; };
  world.run(1000);
  ASSERT_EQ(world.changes.size(), 1u);
  EXPECT_GE(world.changes[0], 200);
  EXPECT_LE(world.changes[0], 220);
  EXPECT_EQ(world.plan, "three to one");
  EXPECT_EQ(world.known.slowness, (std::vector<double>{1, 3}));
  EXPECT_THAT(world.switches[0].reason, HasSubstr("worker 1 computing 3.0 times as long"));
}

TEST(PlanAdapter, ASlowWorkerIsLeftOut) {
  World world(ways_to_share(), "equal");
  world.slowness = [](int64_t step) { return std::vector<double>{step < 200 ? 1.0 : 4.0, 1}; };
  world.run(1000);
  ASSERT_EQ(world.changes.size(), 1u);
  EXPECT_EQ(world.plan, "worker 1 alone");
  EXPECT_EQ(on_workers(world.switches[0].workers), " on worker 1");
  EXPECT_EQ(world.known.slowness, (std::vector<double>{4, 1}));
}

/// A worker with little work does not delay the step: only its computing time shows that it is fast again.
TEST(PlanAdapter, AWorkerThatRecoversIsSeen) {
  World world(ways_to_share(), "equal");
  world.slowness = [](int64_t step) { return std::vector<double>{1, step < 200 || step > 500 ? 1.0 : 3.0}; };
  world.run(1000);
  ASSERT_EQ(world.changes.size(), 2u);
  EXPECT_GT(world.changes[1], 500);
  EXPECT_LE(world.changes[1], 520);
  EXPECT_EQ(world.plan, "equal");
  EXPECT_EQ(world.known.slowness, (std::vector<double>{1, 1}));
}

TEST(PlanAdapter, WorkersAreComparedWithEachOther) {
  World all(ways_to_share(), "equal");  // both are slower: the machine is slow
  all.slowness = [](int64_t step) { return std::vector<double>(2, step < 200 ? 1.0 : 3.0); };
  all.run(600);
  EXPECT_TRUE(all.changes.empty());
  EXPECT_EQ(all.known.slowness, (std::vector<double>{}));
  World four({{"equal", {{0, 1, 2, 3}, {0.1, 0.1, 0.1, 0.1}, 0.5e6, 0}},
              {"without 2", {{0, 1, 3}, {0.134, 0.134, 0.134}, 0.5e6, 0}}},
             "equal");
  four.machine = [](int64_t step) { return step < 200 ? 1.0 : 1.5; };
  four.slowness = [](int64_t step) { return std::vector<double>{1, 1, step < 200 ? 1.0 : 2.0, 1}; };
  four.run(600);
  EXPECT_EQ(four.plan, "without 2");
  EXPECT_EQ(four.known.slowness, (std::vector<double>{1, 1, 2, 1}));
}

/// An error in a forecast from the beginning is not a change of a worker.
TEST(PlanAdapter, StagesThatAreForecastBadlyAreNoSlowWorkers) {
  std::map<std::string, MadeUpPlan> plans = ways_to_share();
  World world(plans, "equal");
  world.worker_noise = [](int64_t, int worker) { return worker == 1 ? 1.2 : 1; };
  world.run(600);
  EXPECT_TRUE(world.changes.empty());
  EXPECT_TRUE(world.known.slowness.empty());
}

TEST(PlanAdapter, NoiseOfWorkersDoesNotMakeItFlap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    World constant(ways_to_share(), "equal");
    constant.worker_noise = [noise = noise_of(seed)](int64_t step, int worker) { return noise(2 * step + worker); };
    constant.run(2000);
    EXPECT_TRUE(constant.changes.empty());
    World slowing(ways_to_share(), "equal");
    slowing.worker_noise = constant.worker_noise;
    slowing.slowness = [](int64_t step) { return std::vector<double>{1, step < 300 ? 1.0 : 3.0}; };
    slowing.run(2000);
    EXPECT_EQ(slowing.changes.size(), 1u);
    EXPECT_EQ(slowing.plan, "three to one");
  }
}

// -- memory

TEST(PlanAdapter, LessMemoryChangesThePlanEvenAtALoss) {
  World world;
  world.memory = [](int64_t step) { return step < 195 ? 1000 : 250; };
  world.forecaster.bytes_to_move = int64_t(100e6);
  world.run(200);
  ASSERT_EQ(world.changes, (std::vector<int64_t>{195})) << "at once, with five steps left";
  EXPECT_EQ(world.plan, "computing");
  EXPECT_THAT(world.switches[0].reason, HasSubstr("\"communicating\" lacks 50 B of memory; \"computing\" fits"));
  EXPECT_TRUE(world.warnings.empty());
}

TEST(PlanAdapter, MemoryThatSufficesChangesNothing) {
  World world;
  world.memory = [](int64_t step) { return step < 100 ? 1000 : 300; };
  world.run(1000);
  EXPECT_TRUE(world.changes.empty());
}

TEST(PlanAdapter, WhereNothingFitsOneLineHasTheMissingBytes) {
  World world;
  world.memory = [](int64_t step) { return step < 100 ? 0 : 150; };
  world.bandwidth = [](int64_t step) { return step < 300 ? kFast : kFast / 4; };  // the adapter asks again
  world.run(1000);
  EXPECT_TRUE(world.changes.empty());
  ASSERT_EQ(world.warnings.size(), 1u);
  EXPECT_THAT(
      world.warnings[0],
      HasSubstr(
          "after step 100 no plan fits 150 B per worker: \"computing\", the nearest, lacks 50 B; the run continues "
          "under \"communicating\", which lacks 150 B"));
}

TEST(PlanAdapter, MemoryThatComesBackBringsTheFasterPlanBack) {
  World world;
  world.memory = [](int64_t step) { return step < 100 || step >= 400 ? 1000 : 250; };
  world.run(1000);
  EXPECT_EQ(world.changes, (std::vector<int64_t>{100, 400}));
  EXPECT_EQ(world.plan, "communicating");
}

}  // namespace
}  // namespace trireme::test_support
