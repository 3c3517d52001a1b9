// Memory of real workers in a step: private replicas compared with ZeRO's formulas, recomputation and schedules with
// the activations that their micro-batches keep.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "measured_run.h"
#include "plan/named.h"
#include "program/compile.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using test_support::measure_run;
using test_support::MeasuredRun;
using test_support::ones_batch;

constexpr int64_t kBytes = 4;  // per element
constexpr int64_t kClasses = 4;

// -- ZeRO (Rajbhandari et al., SC 2020)

struct Level {
  OptimizerSharding sharding;
  bool divides_state, divides_gradients, divides_weights;
};
constexpr Level kLevels[] = {{OptimizerSharding::none, false, false, false},
                             {OptimizerSharding::zero1, true, false, false},
                             {OptimizerSharding::zero2, true, true, false},
                             {OptimizerSharding::zero3, true, true, true}};

TEST(ReplicasOfWorkers, TakeTheBytesOfTheFormula) {
  constexpr double kTolerance = 0.05;
  const Model model = make_model({"mlp", {64}, kClasses, {{"hidden", 256}, {"depth", 4}}});
  const double p = double(model.parameter_count()) * kBytes;
  ASSERT_GT(model.parameter_count(), 200000);
  OptimizerConfig momentum, adam;
  momentum.momentum = 0.9;
  adam.kind = &kAdam;
  for (int n : {2, 4})
    for (const Level& level : kLevels)
      for (const auto& [optimizer, states] : {std::pair{momentum, 1}, std::pair{adam, 2}}) {
        SCOPED_TRACE(fmt::format("{} workers, {}, {} states", n, name_of(level.sharding), states));
        Plan plan = named_plan(fmt::format("data={}", n), model, Cluster::uniform(n), 8, {});
        plan.optimizer_sharding = level.sharding;
        // One bucket per layer, so that the peak of zero3 can be less than the whole.
        const Program program =
            compile(model, plan, {.bucket_bytes = 64 << 10, .first_bucket_bytes = 64 << 10, .private_replicas = true});
        double largest = 0;
        for (const Bucket& bucket : program.buckets) largest = std::max(largest, double(bucket.elements * kBytes));
        ASSERT_LT(largest, 0.4 * p);
        for (const MemoryUse& use : measure_run(model, plan, program, ones_batch(8, 64), optimizer).rest) {
          auto expect = [&](MemoryCategory category, double whole, bool divided) {
            const double expected = divided ? whole / n : whole;
            EXPECT_NEAR(double(use.current[size_t(category)]), expected, kTolerance * expected) << name_of(category);
            return expected;
          };
          const double persistent = expect(MemoryCategory::weights, p, level.divides_weights) +
                                    expect(MemoryCategory::gradients, p, level.divides_gradients) +
                                    expect(MemoryCategory::optimizer, states * p, level.divides_state);
          EXPECT_EQ(use.current[size_t(MemoryCategory::activations)], 0);
          // Temporarily: the gradient of the running layer and, if weights are divided, its weights.
          const double passing = (level.divides_gradients ? largest : 0) + (level.divides_weights ? largest : 0);
          const double peak = double(use.peak - use.at_peak[size_t(MemoryCategory::activations)]);
          EXPECT_LE(peak, (1 + kTolerance) * (persistent + passing));
          EXPECT_GE(peak, persistent + 0.75 * passing);
        }
      }
}

// -- Activations. A stage is a chain of `hidden` times Linear and ReLU with kWidth features, then a linear layer to
// kNarrow features, so that the values between stages hardly count. A unit u is one activation of a micro-batch,
// kSamples * kWidth floats.
//
// Linear keeps its input and ReLU its output, which are the same tensors: a micro-batch in flight holds `hidden` units.
// Backward holds two units more: the gradient that goes into a layer and the one that comes out.

constexpr int64_t kWidth = 256, kNarrow = 4, kSamples = 16;  // of a micro-batch
constexpr double kUnit = double(kSamples * kWidth * kBytes);
constexpr double kGradients = 2;  // units in backward
constexpr int kGroup = 3;         // hidden layers that are recomputed together

Model deep(int stages, int hidden) {
  ModelBuilder b("deep");
  NodeId x = b.input("data", {kNarrow}), target = b.input("target", {});
  for (int s = 0; s < stages; ++s) {
    for (int h = 0; h < hidden; ++h) {
      x = b.layer<Linear>({x}, fmt::format("s{}.fc{}", s, h), b.shape(x)[0], kWidth);
      x = b.layer<Relu>({x}, fmt::format("s{}.relu{}", s, h));
    }
    x = b.layer<Linear>({x}, fmt::format("s{}.out", s), kWidth, kNarrow);
  }
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

enum class Recompute { none, all, except_last };

/// One stage per worker. Each run of kGroup hidden layers is recomputed together; the last linear layer belongs to the
/// last run.
Plan plan_for(const Model& model, int stages, int hidden, const std::string& schedule, int micro_batches,
              Recompute recompute) {
  Plan plan = named_plan(stages == 1 ? "single" : fmt::format("pipeline={},micro_batches={}", stages, micro_batches),
                         model, Cluster::uniform(stages), kSamples * micro_batches, {});
  plan.schedule = schedule;
  plan.micro_batches = micro_batches;
  plan.recompute_last = recompute == Recompute::all;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const std::string& name = model.node(id).name;
    LayerPlan& layer = plan.layers[size_t(id)];
    layer.stage = name == "loss" ? stages - 1 : std::stoi(name.substr(1));
    if (recompute == Recompute::none || name == "loss") continue;
    const size_t digit = name.find_first_of("0123456789", name.find('.'));
    const int number = digit == std::string::npos ? hidden - 1 : std::stoi(name.substr(digit));
    layer.recompute = fmt::format("group {}", number / kGroup);
  }
  validate(plan, model, kSamples * micro_batches, "test");
  return plan;
}

/// Peaks of activations in units, by stage.
std::vector<double> peaks(const Model& model, const Plan& plan) {
  const Program program = compile(model, plan, {});
  std::vector<double> units;
  for (const MemoryUse& use :
       measure_run(model, plan, program, ones_batch(kSamples * plan.micro_batches, kNarrow)).rest)
    units.push_back(double(use.at_peak[size_t(MemoryCategory::activations)]) / kUnit);
  return units;
}

TEST(Activations, InFlightAsTheScheduleSays) {
  constexpr int kStages = 3, kHidden = 4;
  constexpr double kTolerance = 0.1;
  const Model model = deep(kStages, kHidden);
  std::map<int, std::vector<double>> gpipe, flush;  // by number of micro-batches
  for (int m : {2, 4, 6}) {
    gpipe[m] = peaks(model, plan_for(model, kStages, kHidden, "gpipe", m, Recompute::none));
    flush[m] = peaks(model, plan_for(model, kStages, kHidden, "1f1b", m, Recompute::none));
    for (int s = 0; s < kStages; ++s) {
      SCOPED_TRACE(fmt::format("{} micro-batches, stage {}", m, s));
      const double all = m * kHidden + kGradients, few = std::min(m, kStages - s) * kHidden + kGradients;
      EXPECT_NEAR(gpipe[m][size_t(s)], all, kTolerance * all);
      EXPECT_NEAR(flush[m][size_t(s)], few, kTolerance * few);
    }
  }
  for (int s = 0; s < kStages; ++s) {
    const double ratio = (flush[6][size_t(s)] - kGradients) / (gpipe[6][size_t(s)] - kGradients);
    EXPECT_NEAR(ratio, (kStages - s) / 6.0, 0.2 * (kStages - s) / 6.0) << s;
    EXPECT_NEAR(flush[6][size_t(s)], flush[4][size_t(s)], kTolerance * flush[4][size_t(s)])
        << "does not grow with m >= p";
  }
}

/// With recomputation a micro-batch in flight keeps the inputs of its groups: groups - 1 units, because the first input
/// is narrow. In backward it also has the kGroup activations of one group. With "except_last" the last micro-batch
/// keeps `hidden` units.
struct Predicted {
  int hidden;
  double inputs() const { return double(hidden) / kGroup - 1; }
  double again() const { return kGroup + kGradients; }

  /// `in_flight` micro-batches, all recomputed.
  double all(int in_flight) const { return in_flight * inputs() + again(); }
  /// `in_flight` micro-batches, the last one not recomputed. Under gpipe backward begins with that one. Under 1f1b it
  /// ends with that one, so that another may be recomputed at the same time.
  double except_last(int in_flight, bool last_first) const {
    if (last_first || in_flight == 1)
      return std::max((in_flight - 1) * inputs() + hidden + kGradients, in_flight * inputs() + again());
    return (in_flight - 1) * inputs() + again() + hidden;
  }
};

TEST(RecomputedActivations, OfOneDevice) {
  constexpr int kHidden = 12;
  const Predicted predicted{kHidden};
  const Model model = deep(1, kHidden);
  const double whole = peaks(model, plan_for(model, 1, kHidden, "gpipe", 1, Recompute::none))[0];
  const double again = peaks(model, plan_for(model, 1, kHidden, "gpipe", 1, Recompute::all))[0];
  EXPECT_NEAR(whole, kHidden + kGradients, 0.15 * whole);
  EXPECT_NEAR(again, predicted.all(1), 0.15 * predicted.all(1));
  EXPECT_LT(again, 0.65 * whole);
}

TEST(RecomputedActivations, OfAPipeline) {
  constexpr int kStages = 2, kHidden = 6, kMicroBatches = 4;
  constexpr double kTolerance = 0.15;
  const Predicted predicted{kHidden};
  const Model model = deep(kStages, kHidden);
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int s = 0; s < kStages; ++s) {
      SCOPED_TRACE(fmt::format("{}, stage {}", schedule, s));
      const bool is_gpipe = schedule == std::string("gpipe");
      const int in_flight = is_gpipe ? kMicroBatches : std::min(kMicroBatches, kStages - s);
      auto peak = [&](Recompute r) {
        return peaks(model, plan_for(model, kStages, kHidden, schedule, kMicroBatches, r))[size_t(s)];
      };
      const double none = in_flight * kHidden + kGradients, except_last = predicted.except_last(in_flight, is_gpipe);
      EXPECT_NEAR(peak(Recompute::none), none, kTolerance * none);
      EXPECT_NEAR(peak(Recompute::all), predicted.all(in_flight), kTolerance * predicted.all(in_flight));
      EXPECT_NEAR(peak(Recompute::except_last), except_last, kTolerance * except_last);
    }
}

TEST(RecomputedActivations, EveryGroupRunsOnceMorePerMicroBatch) {
  constexpr int kStages = 2, kHidden = 6, kGroups = kHidden / kGroup;
  const Model model = deep(kStages, kHidden);
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int m : {1, 4})
      for (Recompute recompute : {Recompute::none, Recompute::all, Recompute::except_last}) {
        SCOPED_TRACE(fmt::format("{}, {} micro-batches", schedule, m));
        const int expected = recompute == Recompute::all ? m : recompute == Recompute::except_last ? m - 1 : 0;
        const Plan plan = plan_for(model, kStages, kHidden, schedule, m, recompute);
        const Program program = compile(model, plan, {});
        const MeasuredRun ran = measure_run(model, plan, program, ones_batch(kSamples * m, kNarrow));
        for (int rank = 0; rank < kStages; ++rank) {
          std::map<SegmentId, int> forwards, more;
          for (const Instruction& i : program.instructions(rank)) {
            if (i.code == OpCode::forward && program.segments[size_t(i.index)].run >= 0) ++forwards[i.index];
            if (i.code == OpCode::recompute) ++more[i.index];
          }
          EXPECT_EQ(forwards.size(), size_t(recompute == Recompute::none ? 0 : kGroups));
          for (const auto& [segment, count] : forwards) {
            EXPECT_EQ(count, m);
            EXPECT_EQ(more[segment], expected);
          }
          EXPECT_EQ(ran.recomputed[size_t(rank)], expected * kGroups);
        }
      }
}

}  // namespace
}  // namespace trireme
