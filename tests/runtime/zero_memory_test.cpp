// ZeRO's memory with the default buckets of training, on a model that fills several of them. Weights, gradients and
// optimizer state of real workers are compared with the paper's formula (Rajbhandari et al., SC 2020, section 5), in
// float32: P, P and K P elements of 4 bytes, divided by the number of workers if the level divides them.
//
// In addition, only for a while: zero2 and zero3 hold a bucket's whole gradient from the first backward of its layers
// to its reduction, and zero3 also its whole weights. This is one bucket at a time, so the largest one counts for the
// peak.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "measured_run.h"
#include "plan/named.h"
#include "program/compile.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme {
namespace {

constexpr int64_t kBytes = 4;  // per element
constexpr double kTolerance = 0.05;
constexpr int64_t kSamples = 8, kFeatures = 64, kClasses = 4;
constexpr int64_t kWidth = 1024, kLayersPerBlock = 8, kBlocks = 4;  // 32 MiB of weights per block

Model wide_model() {
  ModelBuilder b("wide");
  NodeId x = b.input("data", {kFeatures}), target = b.input("target", {});
  for (int block = 0; block < kBlocks; ++block)
    for (int layer = 0; layer < kLayersPerBlock; ++layer) {
      x = b.layer<Linear>({x}, fmt::format("h.{}.fc{}", block, layer), b.shape(x)[0], kWidth);
      x = b.layer<Relu>({x}, fmt::format("h.{}.relu{}", block, layer));
    }
  x = b.layer<Linear>({x}, "head", kWidth, kClasses);
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

struct Level {
  OptimizerSharding sharding;
  bool divides_state, divides_gradients, divides_weights;
};
std::ostream& operator<<(std::ostream& out, const Level& level) { return out << name_of(level.sharding); }

struct States {
  const OptimizerKind* kind;
  double momentum;
  int per_element;  ///< K
};
constexpr States kMomentum{&kSgd, 0.9, 1}, kTwoMoments{&kAdam, 0, 2};

double largest_bucket(const Program& program) {
  int64_t elements = 0;
  for (const Bucket& bucket : program.buckets) elements = std::max(elements, bucket.elements);
  return double(elements * kBytes);
}

class DefaultBuckets : public ::testing::TestWithParam<std::tuple<Level, int>> {
 protected:
  static void expect_formula(const MemoryUse& use, const Level& level, int n, double p, int states, double bucket) {
    struct Part {
      MemoryCategory category;
      double whole;
      bool divided, comes_and_goes;
    };
    for (const Part& part : {Part{MemoryCategory::weights, p, level.divides_weights, level.divides_weights},
                             Part{MemoryCategory::gradients, p, level.divides_gradients, level.divides_gradients},
                             Part{MemoryCategory::optimizer, states * p, level.divides_state, false}}) {
      const double expected = part.divided ? part.whole / n : part.whole;
      const double at_rest = double(use.current[size_t(part.category)]);
      const double at_peak = double(use.at_peak[size_t(part.category)]) - (part.comes_and_goes ? bucket : 0);
      EXPECT_NEAR(at_rest, expected, kTolerance * expected) << name_of(part.category) << " between steps";
      EXPECT_NEAR(at_peak, expected, kTolerance * expected) << name_of(part.category) << " at the step's peak";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Zero, DefaultBuckets,
                         ::testing::Combine(::testing::Values(Level{OptimizerSharding::none, false, false, false},
                                                              Level{OptimizerSharding::zero1, true, false, false},
                                                              Level{OptimizerSharding::zero2, true, true, false},
                                                              Level{OptimizerSharding::zero3, true, true, true}),
                                            ::testing::Values(2, 4)));

TEST_P(DefaultBuckets, TakeTheBytesOfTheFormula) {
  const auto& [level, n] = GetParam();
  const Model model = wide_model();
  const double p = double(model.parameter_count() * kBytes);
  Plan plan = named_plan(fmt::format("data={}", n), model, Cluster::uniform(n), kSamples, {});
  plan.optimizer_sharding = level.sharding;
  const CompileOptions options{.private_replicas = true};
  const Program program = compile(model, plan, options);
  ASSERT_GE(p, 4.0 * double(options.bucket_bytes));
  ASSERT_GE(largest_bucket(program), double(options.bucket_bytes)) << "some bucket is full";
  ASSERT_GE(program.buckets.size(), 4u);

  for (const States& states : {kMomentum, kTwoMoments}) {
    SCOPED_TRACE(fmt::format("{} states", states.per_element));
    OptimizerConfig optimizer;
    optimizer.kind = states.kind;
    optimizer.momentum = states.momentum;
    for (const MemoryUse& use :
         test_support::measure_run(model, plan, program, test_support::ones_batch(kSamples, kFeatures), optimizer).rest)
      expect_formula(use, level, n, p, states.per_element, largest_bucket(program));
  }
}

/// Gradients stored in bfloat16: half of the whole gradients; what zero2 and zero3 divide is the sum, in float32.
class StoredGradients : public ::testing::TestWithParam<OptimizerSharding> {};
INSTANTIATE_TEST_SUITE_P(Zero, StoredGradients, ::testing::ValuesIn(kOptimizerShardings));

TEST_P(StoredGradients, TakeHalfTheBytes) {
  constexpr int n = 2;
  const Model model = wide_model();
  const double p = double(model.parameter_count() * kBytes);
  Plan plan = named_plan(fmt::format("data={}", n), model, Cluster::uniform(n), kSamples, {});
  plan.optimizer_sharding = GetParam();
  plan.compression.kind = Compression::Kind::bf16_stored;
  const Program program = compile(model, plan, {.mixed_precision = true});
  OptimizerConfig optimizer;
  optimizer.momentum = 0.9;
  const auto gradients = size_t(MemoryCategory::gradients);
  const double expected = GetParam() >= OptimizerSharding::zero2 ? p / n : p / 2;
  // For a while: a bucket's whole gradient and the sum of a part; or its copy in float32 for the update.
  const double once = 1.5 * largest_bucket(program);
  const Batch batch = test_support::ones_batch(kSamples, kFeatures);
  for (const MemoryUse& use : test_support::measure_run(model, plan, program, batch, optimizer, Precision::bf16).rest) {
    EXPECT_NEAR(double(use.current[gradients]), expected, kTolerance * expected) << "between steps";
    EXPECT_GE(double(use.at_peak[gradients]), (1 - kTolerance) * expected);
    EXPECT_LE(double(use.at_peak[gradients]), (1 + kTolerance) * expected + once);
  }
}

}  // namespace
}  // namespace trireme
