// Gradient norms of pieces and of whole batches as workers measure them, and the noise scale computed from them, on
// linear regression with Gaussian inputs, where both are known.
#include "cost/noise_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/gradient_norms.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/mean_squared_error.h"

namespace trireme {
namespace {

constexpr int64_t kFeatures = 8;
constexpr uint64_t kSeed = 21;

/// y = w x without a bias, w = 0.
Model regression() {
  ModelBuilder b("regression");
  const NodeId data = b.input("data", {kFeatures}), target = b.input("target", {1});
  const NodeId y = b.layer<Linear>({data}, "linear", kFeatures, 1, LinearOptions{.bias = false});
  const NodeId loss = b.layer<MeanSquaredError>({y, target}, "loss");
  return b.finish(y, loss).with_initial_values(
      {.tensors = {{"linear.weight", at::zeros({1, kFeatures})}}, .report = ""});
}

/// Sample `i` of step `step`: x is standard normal, the target is sum(x)/sqrt(features) + a standard normal number. The
/// best weights have distance 1 from 0.
void draw_sample(int64_t step, int64_t i, double* x, double& target) {
  const Philox random(random_key(kSeed, "sample"));
  target = random.normal(uint64_t(step * 1000 + i), 1000);
  for (int64_t k = 0; k < kFeatures; ++k) {
    x[k] = random.normal(uint64_t(step * 1000 + i), uint64_t(k));
    target += x[k] / std::sqrt(double(kFeatures));
  }
}

Batch batch_of(int64_t step, int64_t samples) {
  return {samples, [step](Range range) {
            at::Tensor data = at::empty({range.size(), kFeatures}, at::kDouble),
                       target = at::empty({range.size(), 1}, at::kDouble);
            for (int64_t i = 0; i < range.size(); ++i)
              draw_sample(step, range.begin + i, data.data_ptr<double>() + kFeatures * i, target.data_ptr<double>()[i]);
            return std::vector<at::Tensor>{data, target};
          }};
}

using Indices = std::vector<int64_t>;

Indices from(int64_t begin, int64_t end) {
  Indices all(static_cast<size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

/// |mean gradient of these samples|^2 at w = 0, where a sample's gradient is -2 target x.
double squared_norm(int64_t step, const Indices& samples) {
  double sum[kFeatures] = {}, x[kFeatures], target, square = 0;
  for (int64_t i : samples) {
    draw_sample(step, i, x, target);
    for (int64_t k = 0; k < kFeatures; ++k) sum[k] -= 2 * target * x[k] / double(samples.size());
  }
  for (double s : sum) square += s * s;
  return square;
}

/// Sums over all workers, for each step. The weights stay 0.
std::vector<GradientNorms> measured_norms(const std::string& strategy, int devices, int64_t samples, int64_t steps,
                                          bool private_replicas) {
  const Model model = regression();
  const Plan plan = named_plan(strategy, model, Cluster::uniform(devices), samples, {});
  const Program program = compile(model, plan, {.keep_gradients = true, .private_replicas = private_replicas});
  EXPECT_EQ(obstacle_to_gradient_norms(program), "");
  LocalWorld world(devices);
  ParameterStore store(program, Precision::fp64);
  std::vector<std::vector<GradientNorms>> of_ranks(static_cast<size_t>(devices),
                                                   std::vector<GradientNorms>(static_cast<size_t>(steps)));
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.gradient_norms = true});
    for (int64_t step = 0; step < steps; ++step)
      of_ranks[size_t(rank)][size_t(step)] =
          worker.train({.step = step, .batch = batch_of(step, samples), .learning_rate = 0}).norms;
    worker.settle();
    worker.barrier();
  });
  std::vector<GradientNorms> sums(static_cast<size_t>(steps));
  for (const auto& norms : of_ranks)
    for (size_t s = 0; s < norms.size(); ++s) {
      sums[s].squares += norms[s].squares;
      sums[s].piece_squares += norms[s].piece_squares;
      sums[s].pieces += norms[s].pieces;
      sums[s].inverse_samples += norms[s].inverse_samples;
    }
  return sums;
}

struct Case {
  const char* strategy;
  int devices;
  int64_t samples;
  std::vector<Indices> pieces;
};

TEST(GradientNorms, AreThoseOfTheSamplesOfEachPiece) {
  const std::vector<Case> cases{
      {"data", 2, 12, {from(0, 6), from(6, 12)}},
      {"data", 3, 10, {from(0, 4), from(4, 7), from(7, 10)}},
      {"data,micro_batches=2", 2, 12, {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}},  // half of each micro-batch
      {"data=1,micro_batches=3", 1, 12, {from(0, 4)}},
      {"zero1", 2, 12, {from(0, 6), from(6, 12)}},
      {"zero3", 2, 12, {from(0, 6), from(6, 12)}},
      {"zero2,micro_batches=2", 2, 12, {from(0, 3), from(3, 6), from(6, 9), from(9, 12)}}};
  for (const Case& c : cases)
    for (bool private_replicas : {false, true}) {
      SCOPED_TRACE(std::string(c.strategy) + (private_replicas ? ", private" : ""));
      const std::vector<GradientNorms> norms = measured_norms(c.strategy, c.devices, c.samples, 2, private_replicas);
      for (int64_t step = 0; step < 2; ++step) {
        double squares = 0, inverse = 0;
        for (const Indices& piece : c.pieces) {
          squares += squared_norm(step, piece);
          inverse += 1 / double(piece.size());
        }
        const GradientNorms& n = norms[size_t(step)];
        EXPECT_DOUBLE_EQ(n.pieces, double(c.pieces.size()));
        EXPECT_NEAR(n.inverse_samples, inverse, 1e-12);
        EXPECT_NEAR(n.piece_squares, squares, 1e-9 * squares);
        EXPECT_NEAR(n.squares, squared_norm(step, from(0, c.samples)), 1e-9 * n.squares);
      }
    }
}

TEST(GradientNorms, AreRefusedWherePiecesAreIndistinguishable) {
  const Model model = regression();
  const auto obstacle = [&](const char* strategy, int devices, bool keeps = true) {
    const Plan plan = named_plan(strategy, model, Cluster::uniform(devices), 8, {});
    return obstacle_to_gradient_norms(compile(model, plan, {.keep_gradients = keeps}));
  };
  EXPECT_NE(obstacle("single", 1), "");
  EXPECT_NE(obstacle("data", 2, false), "");
  EXPECT_NE(obstacle("tensor", 2), "");
  EXPECT_NE(obstacle("data,compression=bf16", 2), "");
  EXPECT_EQ(obstacle("data", 2), "");
}

TEST(NoiseScale, IsThatOfLinearRegression) {
  // x is standard normal in d dims, the residual r has variance 1 + 1. G = 2 delta with |delta| = 1; one sample's
  // gradient is 2 r x. E|2 r x|^2 = 4 ((d + 2) + d), so tr(Sigma) = 4 (d + 2 + d) - 4.
  constexpr double kSquare = 4, kCovariance = 4 * (2 * kFeatures + 2) - 4;
  constexpr int64_t kSteps = 400, kSamples = 48;
  struct Way {
    const char* strategy;
    int devices;
  };
  for (const Way& way : {Way{"data", 2}, Way{"data=1,micro_batches=4", 1}}) {
    SCOPED_TRACE(way.strategy);
    NoiseScaleEstimator estimator(1);
    for (const GradientNorms& norms : measured_norms(way.strategy, way.devices, kSamples, kSteps, false))
      estimator.add(norms, kSamples);
    ASSERT_TRUE(estimator.noise_scale());
    EXPECT_NEAR(*estimator.gradient_square() / kSquare, 1, 0.1);
    EXPECT_NEAR(*estimator.covariance() / kCovariance, 1, 0.1);
    EXPECT_NEAR(*estimator.noise_scale(), kCovariance / kSquare, 0.15 * kCovariance / kSquare);
  }
}

TEST(NoiseScale, ForgetsAndRefuses) {
  NoiseScaleEstimator estimator(0.5);
  EXPECT_FALSE(estimator.noise_scale());
  estimator.add({}, 8);
  EXPECT_FALSE(estimator.noise_scale()) << "nothing was measured";
  // |G|^2 = 1, tr(Sigma) = s: the squared norm is 1 + s/2 for pieces of 2 and 1 + s/8 for the batch of 8.
  const auto norms = [](double s) {
    return GradientNorms{.squares = 1 + s / 8, .piece_squares = 4 * (1 + s / 2), .pieces = 4, .inverse_samples = 2};
  };
  estimator.add(norms(100), 8);
  EXPECT_NEAR(*estimator.noise_scale(), 100, 1e-9);
  for (int i = 0; i < 40; ++i) estimator.add(norms(10), 8);
  EXPECT_NEAR(*estimator.noise_scale(), 10, 1e-6);
  NoiseScaleEstimator noise_only(1);
  noise_only.add({.squares = 0.1, .piece_squares = 8, .pieces = 4, .inverse_samples = 2}, 8);
  EXPECT_LT(*noise_only.gradient_square(), 0);
  EXPECT_FALSE(noise_only.noise_scale());
  NoiseScaleEstimator whole(1);
  whole.add({.squares = 1, .piece_squares = 1, .pieces = 1, .inverse_samples = 1.0 / 8}, 8);
  EXPECT_FALSE(whole.noise_scale()) << "one piece is the batch itself";
}

}  // namespace
}  // namespace trireme
