// The search for the best plan keeps the devices' memory limits, for random models and limits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "../base/expect_error.h"
#include "../planner/exact/fake_costs.h"
#include "base/units.h"
#include "cost/cluster_links.h"
#include "cost/links_of_speed.h"
#include "forecast/best_plan.h"
#include "forecast/cost_source.h"
#include "plan/cluster_file.h"
#include "planner/exact/model_facts.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

constexpr int kLimits = 12;

/// A random model and its costs on a number of devices.
class Case {
 public:
  Case(uint64_t seed, int devices) : random_(seed), seed_(seed), model_(make()) {
    experiment_.batch = 16;
    experiment_.model_name = "random";
    source_.cluster = Cluster::uniform(devices);
    if (seed % 2 == 0) describe();
    else invent(devices);
  }

  const Model& model() const { return model_; }
  const RunSpec& experiment() const { return experiment_; }

  DeviceChoice devices(int64_t memory) { return devices(std::vector<int64_t>(source_.cluster.devices.size(), memory)); }
  DeviceChoice devices(const std::vector<int64_t>& memory) {
    parts_.clear();
    for (size_t i = 0; i < memory.size(); ++i) source_.cluster.devices[i].memory = memory[i];
    return {.source_of = [this](const std::vector<int>& order) -> const CostSource& { return first(order.size()); },
            .orders = {device_numbers(0, source_.cluster.size())}};
  }

  BestPlan best(int64_t memory, Objective objective = Objective::time) {
    return find_best_plan(experiment_, model_, devices(memory), {.objective = objective, .limit = {}, .tolerance = 0});
  }

  /// What `simulate` shows for a plan.
  RunResult shown(const Plan& plan, int64_t memory) {
    return predict(experiment_, model_, plan, devices(memory).source_of(device_numbers(0, plan.devices)));
  }

 private:
  Model make() {
    switch (seed_ % 4) {
      case 0: return make_model({"mlp", {8}, 4, {{"hidden", 16}, {"depth", 4}}});
      case 2: return make_model({"mnist-convnet", {1, 28, 28}, 10, {}});
      default: return random_model(random_, 7, 16, seed_ % 3 == 0, false);
    }
  }

  void describe() {
    DeviceKind kind;
    kind.name = "made up";
    kind.speeds["fp32"] = {
        .peak_flops = 1e9 * double(1 + random_() % 50), .greatest_efficiency = 0.8, .half_work = 1e4};
    kind.memory_bandwidth = 1e9;
    kind.launch = 1e-5;
    source_.cluster.kinds = {kind};
    for (Device& device : source_.cluster.devices) device.kind = 0;
    source_.cluster.nodes = {ClusterNode{.link = {.bandwidth = 1e8 * double(1 + random_() % 20), .latency = 1e-5}}};
    source_ = described_source(experiment_, model_, source_.cluster, device_numbers(0, source_.cluster.size()));
  }

  void invent(int devices) {
    source_.layers = std::make_shared<FakeCosts>(model_, seed_, 1e-4, equal_layers(model_));
    const double bandwidth = 1e6 * double(1 + random_() % 100);
    source_.cluster.nodes = {ClusterNode{.link = {.bandwidth = bandwidth, .latency = 1e-5}}};
    source_.links = std::make_shared<LinksOfSpeed>(source_.cluster, std::vector{devices});
    source_.cluster.overlap = source_.links->overlap();
    source_.shares_memory = seed_ % 3 == 0;
  }

  const CostSource& first(size_t devices) {
    const auto known = parts_.find(devices);
    if (known != parts_.end()) return known->second;
    CostSource part = source_;
    part.cluster.devices.resize(devices);
    return parts_.emplace(devices, std::move(part)).first->second;
  }

  Random random_;
  const uint64_t seed_;
  const Model model_;
  RunSpec experiment_;
  CostSource source_;
  std::map<size_t, CostSource> parts_;
};

/// Limits from below the least possible memory to above the need of the fastest plan.
std::vector<int64_t> limits_of(Case& of) {
  const BestPlan free = of.best(0), least = of.best(0, Objective::memory);
  const double low = 0.7 * double(least.finalists.front().peak_memory);
  const double high = 1.2 * double(free.finalists.front().peak_memory);
  std::vector<int64_t> limits;
  limits.reserve(kLimits);
  for (int i = 0; i < kLimits; ++i) limits.push_back(int64_t(low * std::pow(high / low, double(i) / (kLimits - 1))));
  return limits;
}

class MemoryLimits : public ::testing::TestWithParam<int> {};

TEST_P(MemoryLimits, MoreMemoryNeverGivesASlowerPlan) {
  const int devices = GetParam();
  int fitted = 0, refused = 0, faster = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}, {} devices", seed, devices));
    Case of(seed, devices);
    std::optional<double> before;
    std::vector<int64_t> limits = limits_of(of);
    limits.push_back(0);
    for (const int64_t limit : limits) {
      const BestPlan best = of.best(limit);
      ASSERT_FALSE(best.finalists.empty());
      const Finalist& front = best.finalists.front();
      if (!front.fits_simulated) {
        ++refused;
        EXPECT_FALSE(before) << "a plan fits less memory, and none fits " << limit << " B";
        continue;
      }
      ++fitted;
      const RunResult shown = of.shown(front.rated.plan, limit);
      EXPECT_EQ(shown.status, RunStatus::ok) << shown.reason;
      EXPECT_EQ(*shown.predicted->peak_memory, front.peak_memory);
      EXPECT_TRUE(limit == 0 || front.peak_memory <= limit)
          << front.peak_memory << " B do not fit into " << limit << " B";
      EXPECT_LE(front.simulated, before.value_or(front.simulated))
          << limit << " B gives a slower plan than less memory";
      faster += int(before && front.simulated < *before);
      before = front.simulated;
    }
  }
  std::printf("seeds 1 to 6, %d devices: %d limits fit a plan, %d do not, %d give a faster one\n", devices, fitted,
              refused, faster);
  EXPECT_GT(fitted, 0);
  EXPECT_GT(refused, 0);
  EXPECT_GT(faster, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryLimits, ::testing::Values(1, 2, 4));

TEST(MemoryLimit, WithAGapTheAnswerIsThatNearToTheBestByTheFormula) {
  constexpr double kGap = 0.02;
  int fitted = 0, within = 0;
  for (int i = 0; i < 12; ++i) {
    const uint64_t seed = 1 + uint64_t(i) / 2;
    SCOPED_TRACE(fmt::format("seed {}, {} devices", seed, 1 + i % 2));
    Case of(seed, 1 + i % 2);
    const std::vector<int64_t> limits = limits_of(of);
    for (size_t l = size_t(i % 4); l < limits.size(); l += 4) {
      const int64_t limit = limits[l];
      const BestPlan thorough = of.best(limit);
      const BestPlan quick = find_best_plan(of.experiment(), of.model(), of.devices(limit),
                                            {.limit = {}, .tolerance = kGap, .thorough = false});
      EXPECT_EQ(quick.finalists.front().fits_simulated, thorough.finalists.front().fits_simulated) << limit << " B";
      if (!quick.finalists.front().fits_simulated) continue;
      ++fitted;
      // Plans that the planner enumerates and that fit by the formula are not better than the bound.
      for (const Finalist& finalist : thorough.finalists) {
        const RatedPlan& rated = finalist.rated;
        const bool is_plain = rated.plan.schedule == "gpipe" || rated.plan.schedule == "1f1b";
        if (!is_plain || rated.plan.optimizer_sharding != OptimizerSharding::none) continue;
        if (rated.prediction.fullest() > double(limit)) continue;
        EXPECT_GE(rated.prediction.seconds, quick.answer.lower_bound * (1 - 1e-9)) << rated.plan.in_short(of.model());
      }
      if (!quick.answer_fits) continue;
      ++within;
      double least = std::numeric_limits<double>::infinity();
      for (const Finalist& finalist : quick.finalists)
        if (finalist.fits_simulated) least = std::min(least, finalist.rated.prediction.seconds);
      EXPECT_LE(least, quick.answer.lower_bound / (1 - kGap) * (1 + 1e-9)) << limit << " B";
    }
  }
  std::printf("seeds 1 to 6, 1 and 2 devices: %d limits fit a plan, %d of them the formula's\n", fitted, within);
  EXPECT_GT(within, 0);
}

TEST(MemoryLimit, TheErrorSaysWhatWouldFitAndThatFits) {
  Case of(1, 2);
  const int64_t least = of.best(0, Objective::memory).finalists.front().peak_memory;
  const int64_t limit = least * 9 / 10;
  const BestPlan best = of.best(limit);
  expect_error(Blame::user, {"no plan fits", "lacks", "weights", "% more memory"},
               [&] { check_fits("plan", best, of.experiment(), of.model(), of.devices(limit)); });
  EXPECT_TRUE(of.best(least).finalists.front().fits_simulated);
}

/// The device that needs the greatest share of its memory.
MemoryNeed tightest_of(const RunResult& shown, const std::vector<int64_t>& limits) {
  MemoryNeed tightest;
  for (size_t i = 0; i < shown.memory.size(); ++i) {
    const MemoryNeed need{.device = int(i), .peak = shown.memory[i].peak, .limit = limits[i]};
    if (need.share() > tightest.share()) tightest = need;
  }
  return tightest;
}

TEST(MemoryLimit, OfUnequalDevicesTheErrorSetsEachAgainstItsOwnLimit) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    for (const bool first_is_small : {false, true}) {
      SCOPED_TRACE(fmt::format("seed {}, the {} device is small", seed, first_is_small ? "first" : "second"));
      Case of(seed, 2);
      const int64_t least = of.best(0, Objective::memory).finalists.front().peak_memory;
      std::vector<int64_t> limits{least * 9 / 10, least / 10};  // the fullest device of any plan needs `least`
      if (first_is_small) std::swap(limits[0], limits[1]);
      const BestPlanOptions options{.objective = Objective::time, .limit = {}, .tolerance = 0};
      const DeviceChoice devices = of.devices(limits);
      const BestPlan best = find_best_plan(of.experiment(), of.model(), devices, options);
      ASSERT_FALSE(best.finalists.empty());
      MemoryNeed nearest;
      for (const Finalist& finalist : best.finalists) {
        const Plan& plan = finalist.rated.plan;
        const RunResult shown =
            predict(of.experiment(), of.model(), plan, devices.source_of(device_numbers(0, plan.devices)));
        const MemoryNeed tightest = tightest_of(shown, limits);
        EXPECT_EQ(std::tuple(finalist.tightest.device, finalist.tightest.peak, finalist.tightest.limit),
                  std::tuple(tightest.device, tightest.peak, tightest.limit))
            << plan.in_short(of.model());
        if (nearest.limit == 0 || tightest.share() < nearest.share()) nearest = tightest;
      }
      expect_error(Blame::user,
                   {"lacks " + format_bytes(nearest.missing()) + ": ",
                    fmt::format("device {} needs {}, it has {}: ", nearest.device, format_bytes(nearest.peak),
                                format_bytes(nearest.limit))},
                   [&] { check_fits("plan", best, of.experiment(), of.model(), devices, options); });
      std::vector<int64_t> enough;
      enough.reserve(limits.size());
      for (const int64_t limit : limits) enough.push_back(int64_t(std::ceil(double(limit) * nearest.share())) + 1);
      const BestPlan then = find_best_plan(of.experiment(), of.model(), of.devices(enough), options);
      EXPECT_TRUE(then.finalists.front().fits_simulated) << "memory times the factor of the error is not enough";
    }
}

TEST(MemoryLimit, TheErrorHasTheNumbersOfTheTightestDevice) {
  constexpr int64_t kKi = 1024;
  Case of(2, 2);
  const DeviceChoice devices = of.devices(0);
  BestPlan best = of.best(0);
  best.order = devices.orders.front();
  best.finalists.resize(1);
  Finalist& only = best.finalists.front();
  only.peak_memory = 12 * kKi * kKi;
  only.tightest = {.device = 1, .peak = 300 * kKi, .limit = 100 * kKi};
  only.lacks_most = {.device = 0, .peak = 12 * kKi * kKi, .limit = 5 * kKi * kKi};
  only.fits_simulated = false;
  only.misfit = "device 1 needs 300 KiB, it has 100 KiB: weights";
  expect_error(Blame::user,
               {"lacks 200 KiB: device 1 needs 300 KiB, it has 100 KiB: weights; device 0 lacks 7.00 MiB, a smaller",
                "what would fit: ", "devices with 3.00 times the memory"},
               [&] { check_fits("plan", best, of.experiment(), of.model(), devices, {.limit = 0.0}); });
}

}  // namespace
}  // namespace trireme::test_support
