// Compares DiLoCo and its streaming form with serial references, and the 4-bit format with a table.
#include <gtest/gtest.h>

#include <cmath>

#include "toy.h"
#include "update/diloco.h"
#include "update/e3m0.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/local_sgd.h"
#include "virtual_toy.h"
#include "worlds.h"

namespace trireme {
namespace {

struct DilocoReference {
  ToyProblem problem;
  int n;
  DilocoOptions options;

  /// theta after `steps` steps and a last, shorter round with the remaining steps.
  Vector run(int64_t steps) const {
    const Vector initial = problem.initial();
    const auto size = int64_t(initial.size());
    Vector theta = initial, momentum(initial.size());
    std::vector<Vector> x(size_t(n), initial);
    struct Exchange {
      int64_t at = -1, since = 0;
      Vector progress;
    };
    std::vector<Exchange> exchanges(size_t(options.fragments));
    const auto range = [&](int f) {  // elements of a fragment, larger fragments first
      const int64_t each = size / options.fragments, more = size % options.fragments;
      const int64_t begin = f * each + std::min<int64_t>(f, more);
      return std::pair(begin, begin + each + (f < more ? 1 : 0));
    };
    const auto set_out = [&](int f) {
      Exchange& e = exchanges[size_t(f)];
      const auto [begin, end] = range(f);
      e.progress.assign(size_t(end - begin), 0.0);
      e.since = 0;
      for (int64_t d = begin; d < end; ++d)
        for (const Vector& own : x) e.progress[size_t(d - begin)] += (theta[size_t(d)] - own[size_t(d)]) / n;
    };
    const auto apply = [&](int f) {
      Exchange& e = exchanges[size_t(f)];
      const auto [begin, end] = range(f);
      for (int64_t d = begin; d < end; ++d) {
        const auto i = size_t(d);
        const double g = e.progress[size_t(d - begin)];
        momentum[i] = options.outer_momentum * momentum[i] + g;
        theta[i] -= options.outer_learning_rate * (g + options.outer_momentum * momentum[i]);
        for (Vector& own : x) own[i] = options.mix * own[i] + (1 - options.mix) * theta[i];
      }
      e.at = -1;
    };
    for (int64_t k = 0; k < steps; ++k) {
      for (int r = 0; r < n; ++r) {
        const Vector g = problem.gradient(r, k, x[size_t(r)]);
        for (size_t d = 0; d < g.size(); ++d) x[size_t(r)][d] -= kRate * g[d];
      }
      for (int f = 0; f < options.fragments; ++f) {
        Exchange& e = exchanges[size_t(f)];
        ++e.since;
        if (e.at == k) apply(f);
        if ((k + 1 - (f + 1) * options.every / options.fragments) % options.every != 0) continue;
        set_out(f);
        e.at = k + options.overlap;
        if (options.overlap == 0) apply(f);
      }
    }
    for (int f = 0; f < options.fragments; ++f) {
      if (exchanges[size_t(f)].at >= 0) apply(f);
      if (exchanges[size_t(f)].since == 0) continue;
      set_out(f);
      apply(f);
    }
    return theta;
  }
};

TEST(Diloco, FollowsTheReference) {
  const ToyProblem problem{.seed = 21};
  for (const DilocoOptions& options :
       {DilocoOptions{.every = 4}, DilocoOptions{.every = 4, .outer_learning_rate = 0.3, .outer_momentum = 0.5},
        DilocoOptions{.every = 6, .fragments = 3, .overlap = 2, .mix = 0.5},
        DilocoOptions{.every = 3, .fragments = 1, .overlap = 2, .mix = 0},
        DilocoOptions{.every = 5, .fragments = 2, .overlap = 0, .mix = 0.25},
        DilocoOptions{.every = 12, .fragments = 12, .overlap = 1, .mix = 0}}) {
    auto policy = diloco(options);
    const auto results = train_virtually(*policy, problem, {.steps = {23}, .learning_rate = kRate}, 3);
    const Vector theta = DilocoReference{problem, 3, options}.run(23);
    for (const ToyResult& result : results) {
      EXPECT_LT(largest_difference(result.weights, theta), 1e-12)
          << options.every << " " << options.fragments << " " << options.overlap;
      EXPECT_EQ(result.weights, results[0].weights);
    }
  }
}

TEST(Diloco, OuterRateOneWithoutMomentumIsLocalSgd) {
  const ToyProblem problem{.seed = 22};
  const ToyOptions toy{.steps = {14}, .learning_rate = kRate, .momentum = 0.9};
  auto outer = diloco({.every = 4, .outer_learning_rate = 1, .outer_momentum = 0});
  auto local = local_sgd({.every = {4, Length::Unit::steps}});
  const auto a = train_virtually(*outer, problem, toy, 4), b = train_virtually(*local, problem, toy, 4);
  EXPECT_LT(largest_difference(a[0].weights, b[0].weights), 1e-13);
}

TEST(Diloco, OneReplicaWithOuterRateOneIsSerialSgd) {
  const ToyProblem problem{.seed = 23};
  auto policy = diloco({.every = 4, .outer_learning_rate = 1, .outer_momentum = 0});
  const auto results = train_virtually(*policy, problem, {.steps = {11}, .learning_rate = kRate, .momentum = 0.9}, 1);
  EXPECT_LT(largest_difference(results[0].weights, serial_sgd(problem, 0, 11, kRate, 0.9)), 1e-13);
}

TEST(Diloco, FragmentsSendTheSameBytesInSmallerParts) {
  const ToyProblem problem{.seed = 24, .dims = 24};
  const ToyOptions toy{.steps = {12}, .learning_rate = kRate};
  auto whole = diloco({.every = 6}), parts = diloco({.every = 6, .fragments = 3});
  const auto once = train_virtually(*whole, problem, toy, 2), streamed = train_virtually(*parts, problem, toy, 2);
  EXPECT_EQ(once[0].counts.collectives, 2);
  EXPECT_EQ(streamed[0].counts.bytes_sent, once[0].counts.bytes_sent + 8 * 16)
      << "what fragments 0 and 1 have left goes in a last round";
  EXPECT_EQ(once[0].counts.bytes_sent, 2 * 24 * 8) << "2 (n - 1) / n of 24 doubles, twice";
}

TEST(Diloco, OverlapHidesTheExchange) {
  const ToyProblem problem{.seed = 25};
  // Averaging 11 doubles between 2 replicas sends 88 bytes: 2 s at 44 bytes/s.
  const VirtualLinks links{.replicas = {{.bandwidth = 44, .latency = 0}}};
  const auto seconds = [&](int64_t overlap) {
    auto policy = diloco({.every = 5, .overlap = overlap});
    return train_virtually(*policy, problem, {.steps = {10}, .learning_rate = kRate}, 2, {1}, links)[0].counts;
  };
  const HubCounts blocking = seconds(0), half = seconds(1), hidden = seconds(2);
  EXPECT_DOUBLE_EQ(blocking.exchange_seconds, 4);
  EXPECT_DOUBLE_EQ(half.exchange_seconds, 1 + 2) << "the run ends with the second one";
  EXPECT_DOUBLE_EQ(hidden.exchange_seconds, 0 + 2);
}

TEST(Diloco, EvaluatesTheta) {
  const ToyProblem problem{.seed = 26};
  const DilocoOptions options{.every = 4, .fragments = 2, .mix = 0.5};
  auto policy = diloco(options);
  std::vector<Vector> seen(2);
  ToyOptions toy{.steps = {9}, .learning_rate = kRate};
  toy.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy& replica, Hub&) {
    const Vector before = to_vector(state.weights);
    const Vector theta = to_vector(replica.values_for_evaluation(state).weights);
    EXPECT_EQ(to_vector(state.weights), before);
    if (k == 9) seen[size_t(r)] = theta;
  };
  const auto results = train_virtually(*policy, problem, toy, 2);
  EXPECT_EQ(seen[0], results[0].weights);
  EXPECT_EQ(seen[1], results[0].weights);
}

TEST(Diloco, FourBitsAreCloseAndTakeAnEighthOfTheGather) {
  const ToyProblem problem{.seed = 27, .dims = 2100};
  const ToyOptions toy{.steps = {2}, .learning_rate = 1e-4, .dtype = at::kFloat};
  auto coarse = diloco({.every = 2, .fragments = 1, .four_bits = true}), fine = diloco({.every = 2});
  const auto rounded = train_virtually(*coarse, problem, toy, 3), exact = train_virtually(*fine, problem, toy, 3);
  // For each part (4 and 2096 elements) half a byte per element and 4 bytes per 1024 elements, to two replicas.
  EXPECT_EQ(rounded[0].counts.bytes_sent, 2 * (2 + 4 + 1048 + 3 * 4));
  const Vector start = problem.initial();
  double moved = 0, off = 0;
  for (size_t d = 0; d < start.size(); ++d) {
    moved += std::pow(exact[0].weights[d] - start[d], 2);
    off += std::pow(exact[0].weights[d] - rounded[0].weights[d], 2);
  }
  EXPECT_GT(off, 0);
  EXPECT_LT(std::sqrt(off / moved), 1.0 / 3) << "a value is off by a third of itself at most";
  EXPECT_EQ(rounded[0].weights, rounded[2].weights);
}

TEST(Diloco, ThreadsAndTheVirtualClockGiveTheSameBits) {
  const ToyProblem problem{.seed = 28};
  const ToyOptions toy{.steps = {11}, .learning_rate = kRate, .dtype = at::kFloat};
  for (const bool four_bits : {false, true}) {
    const DilocoOptions options{.every = 4, .fragments = 2, .overlap = 1, .mix = 0.5, .four_bits = four_bits};
    auto first = diloco(options), second = diloco(options);
    ThreadWorld threads(3);
    const auto real = train_toy(threads, *first, problem, toy), modelled = train_virtually(*second, problem, toy, 3);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(real[r].weights, modelled[r].weights);
      EXPECT_EQ(real[r].counts.bytes_sent, modelled[r].counts.bytes_sent);
    }
  }
}

// -- the 4-bit format

TEST(E3m0, RoundsToTheNearestOfATable) {
  const double scale = 3.0;
  std::vector<double> table = {0};
  for (const double power : {1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625}) {
    table.push_back(scale * power);
    table.push_back(-scale * power);
  }
  constexpr uint64_t kSeed = 31;
  at::Tensor values = at::empty({2500}, at::kFloat);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<float>()[i] = float(scale * (2 * Philox(kSeed).uniform(uint64_t(i)) - 1));
  for (const int64_t block : {0, 1024, 2048}) values.data_ptr<float>()[block + 7] = float(-scale);
  const at::Tensor encoded = encode_e3m0(values);
  EXPECT_EQ(encoded.numel(), 1250 + 3 * 4);
  at::Tensor decoded = at::zeros({2500}, at::kFloat);
  add_e3m0(encoded, decoded);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double value = values.data_ptr<float>()[i], got = decoded.data_ptr<float>()[i];
    double nearest = INFINITY;
    for (const double entry : table) nearest = std::min(nearest, std::abs(entry - value));
    EXPECT_NEAR(std::abs(got - value), nearest, 1e-6) << value << ", seed " << kSeed;
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](double entry) { return entry == got; })) << got;
  }
}

TEST(E3m0, KeepsWhatItCanHold) {
  at::Tensor values = at::empty({15}, at::kDouble);
  for (int i = 0; i < 15; ++i) values[i] = i == 7 ? 0 : std::ldexp(i < 7 ? -5.0 : 5.0, i < 7 ? -i : 8 - i);
  at::Tensor sum = at::full({15}, 8, at::kFloat);
  add_e3m0(encode_e3m0(values), sum);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(sum[i].item<float>() - 8, values[i].item<double>());
}

TEST(E3m0, ZerosStayZerosAndInfinitiesBecomeNan) {
  for (const int64_t n : {0, 1, 3}) {
    at::Tensor sum = at::zeros({n}, at::kFloat);
    add_e3m0(encode_e3m0(at::zeros({n})), sum);
    EXPECT_EQ(sum.abs().sum().item<float>(), 0);
  }
  at::Tensor sum = at::zeros({3}, at::kFloat);
  at::Tensor values = at::ones({3});
  values[1] = INFINITY;
  add_e3m0(encode_e3m0(values), sum);
  EXPECT_TRUE(sum.isnan().all().item<bool>());
}

}  // namespace
}  // namespace trireme
