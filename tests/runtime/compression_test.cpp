// Compressed reductions: compared with the paper's algorithm written as loops, and their stated properties.
#include "runtime/replicas/compression.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "../support/ranks.h"
#include "base/random.h"
#include "comm/formulas.h"

namespace trireme {
namespace {

constexpr uint64_t kSeed = 17;

Bucket make_bucket(int workers, const std::vector<Shape>& shapes) {
  Bucket bucket;
  for (int rank = 0; rank < workers; ++rank) bucket.holders.push_back(rank);
  bucket.contributors = bucket.holders;
  for (const Shape& shape : shapes) {
    bucket.shards.push_back({0, whole(shape), bucket.elements});
    bucket.elements += (element_count(shape) + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
  }
  return bucket;
}

at::Tensor draw(const Shape& shape, const std::string& key) {
  at::Tensor values = at::empty(shape, at::kDouble);
  const Philox random(random_key(kSeed, key));
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return values;
}

using Rows = std::vector<std::vector<double>>;

Rows zeros(size_t rows, size_t columns) { return Rows(rows, std::vector<double>(columns)); }

Rows product(const Rows& a, const Rows& b, bool transpose_a, bool transpose_b) {
  const size_t rows = transpose_a ? a[0].size() : a.size(), inner = transpose_a ? a.size() : a[0].size();
  const size_t columns = transpose_b ? b.size() : b[0].size();
  Rows c = zeros(rows, columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      for (size_t k = 0; k < inner; ++k)
        c[i][j] += (transpose_a ? a[k][i] : a[i][k]) * (transpose_b ? b[j][k] : b[k][j]);
  return c;
}

void add_to(Rows& a, const Rows& b, double factor) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) a[i][j] += factor * b[i][j];
}

/// Vogels et al. 2019, algorithms 1 and 2, with sums in place of the paper's means, for one matrix on several workers.
struct PaperPowerSgd {
  Rows q;
  std::vector<Rows> errors;

  Rows step(const std::vector<Rows>& gradients) {
    std::vector<Rows> m = gradients;
    Rows p = zeros(m[0].size(), q[0].size());
    for (size_t w = 0; w < m.size(); ++w) {
      add_to(m[w], errors[w], 1);
      add_to(p, product(m[w], q, false, false), 1);
    }
    for (size_t c = 0; c < p[0].size(); ++c) {  // Gram-Schmidt
      for (size_t e = 0; e < c; ++e) {
        double along = 0;
        for (const auto& row : p) along += row[c] * row[e];
        for (auto& row : p) row[c] -= along * row[e];
      }
      double square = 0;
      for (const auto& row : p) square += row[c] * row[c];
      for (auto& row : p) row[c] /= std::sqrt(square);
    }
    q = zeros(q.size(), q[0].size());
    for (size_t w = 0; w < m.size(); ++w) {
      const Rows own = product(m[w], p, true, false);
      add_to(q, own, 1);
      errors[w] = m[w];
      add_to(errors[w], product(p, own, false, true), -1);
    }
    return product(p, q, false, true);
  }
};

Rows rows_of(const at::Tensor& matrix) {
  Rows rows = zeros(size_t(matrix.size(0)), size_t(matrix.size(1)));
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows[i].size(); ++j) rows[i][j] = matrix[int64_t(i)][int64_t(j)].item<double>();
  return rows;
}

/// Runs `steps` reductions of a bucket; gradient(rank, step) fills a flat bucket. Checks that all ranks have the same
/// bits and returns rank 0's flat sums by step. `contributors`: lower ranks give gradients.
template <class Gradient>
std::vector<at::Tensor> reduce_steps(int workers, int contributors, const Bucket& bucket, int rank_of_factors,
                                     at::ScalarType dtype, int steps, Gradient gradient, int64_t* bytes = nullptr) {
  std::vector<std::vector<at::Tensor>> results(static_cast<size_t>(workers));
  test_support::run_ranks(workers, [&](Communicator& world) {
    const int rank = world.rank();
    PowerSgd power(bucket, rank_of_factors, rank < contributors, dtype);
    power.initialize(kSeed);
    for (int step = 0; step < steps; ++step) {
      at::Tensor flat = at::zeros({bucket.elements}, dtype);
      if (rank < contributors) gradient(rank, step, flat);
      power.all_reduce(flat, world);
      results[size_t(rank)].push_back(flat);
    }
    if (rank == 0 && bytes) *bytes = world.count().bytes_sent;
  });
  for (const auto& other : results)
    for (size_t step = 0; step < other.size(); ++step)
      EXPECT_TRUE(at::allclose(other[step], results[0][step], 0, 0, /*equal_nan=*/true)) << "step " << step;
  return results[0];
}

TEST(PowerSgd, IsThePapersAlgorithm) {
  constexpr int kWorkers = 3, kRank = 2, kSteps = 5;
  const Bucket bucket = make_bucket(kWorkers, {{12, 3, 2, 2}, {9}, {8, 10}});
  const std::vector<Shape> matrices{{12, 12}, {8, 10}};
  const std::vector<int64_t> offsets{bucket.shards[0].offset, bucket.shards[2].offset};
  auto piece = [&](int rank, int step, int m) {
    return draw(matrices[size_t(m)], fmt::format("{}/{}/{}", rank, step, m));
  };
  auto vector = [&](int rank, int step) { return draw({9}, fmt::format("{}/{}/vector", rank, step)); };
  const auto sums =
      reduce_steps(kWorkers, 2, bucket, kRank, at::kDouble, kSteps, [&](int rank, int step, at::Tensor& flat) {
        for (int m = 0; m < 2; ++m)
          flat.narrow(0, offsets[size_t(m)], element_count(matrices[size_t(m)])).copy_(piece(rank, step, m).flatten());
        flat.narrow(0, bucket.shards[1].offset, 9).copy_(vector(rank, step));
      });
  for (int m = 0; m < 2; ++m) {
    const Shape& shape = matrices[size_t(m)];
    PaperPowerSgd paper{zeros(size_t(shape[1]), kRank),
                        std::vector<Rows>(2, zeros(size_t(shape[0]), size_t(shape[1])))};
    const Philox first(random_key(kSeed, m == 0 ? "powersgd/0/0-12/0-3/0-2/0-2" : "powersgd/0/0-8/0-10"));
    for (size_t i = 0; i < paper.q.size(); ++i)
      for (size_t j = 0; j < kRank; ++j) paper.q[i][j] = first.normal(i * kRank + j);
    for (int step = 0; step < kSteps; ++step) {
      const Rows expected = paper.step({rows_of(piece(0, step, m)), rows_of(piece(1, step, m))});
      const at::Tensor got = sums[size_t(step)].narrow(0, offsets[size_t(m)], element_count(shape)).view(shape);
      for (int64_t i = 0; i < shape[0]; ++i)
        for (int64_t j = 0; j < shape[1]; ++j)
          EXPECT_NEAR(got[i][j].item<double>(), expected[size_t(i)][size_t(j)], 1e-10)
              << "step " << step << " at " << i << "," << j;
    }
  }
  for (int step = 0; step < kSteps; ++step)
    EXPECT_TRUE(at::equal(sums[size_t(step)].narrow(0, bucket.shards[1].offset, 9), vector(0, step) + vector(1, step)));
}

TEST(PowerSgd, EnoughRankIsExact) {
  const Bucket bucket = make_bucket(3, {{20, 30}});
  // The same two columns and two rows span the gradients of all workers.
  const at::Tensor left = draw({20, 2}, "left"), right = draw({2, 30}, "right");
  auto part = [&](int rank) { return at::mm(left, draw({2, 2}, fmt::format("mix{}", rank))).mm(right).flatten(); };
  const at::Tensor sum = part(0) + part(1) + part(2);
  for (int factors : {2, 3}) {
    const auto sums = reduce_steps(3, 3, bucket, factors, at::kDouble, 3,
                                   [&](int rank, int, at::Tensor& flat) { flat.narrow(0, 0, 600).copy_(part(rank)); });
    for (const at::Tensor& got : sums)
      EXPECT_LE((got.narrow(0, 0, 600) - sum).abs().max().item<double>(), 1e-11 * sum.abs().max().item<double>());
  }
}

/// Later steps add what one step leaves out: the sum over steps follows the sum of the gradients with a bounded error.
TEST(PowerSgd, ErrorFeedbackLosesNothing) {
  const Bucket bucket = make_bucket(2, {{24, 16}, {5}});
  auto part = [&](int rank) { return draw({24 * 16}, fmt::format("part{}", rank)); };
  const at::Tensor sum = part(0) + part(1);
  constexpr int kSteps = 400;
  const auto sums = reduce_steps(2, 2, bucket, 1, at::kFloat, kSteps, [&](int rank, int, at::Tensor& flat) {
    flat.narrow(0, 0, 24 * 16).copy_(part(rank));
  });
  at::Tensor total = at::zeros({24 * 16}, at::kDouble);
  std::vector<double> errors;
  for (int step = 0; step < kSteps; ++step) {
    total += sums[size_t(step)].narrow(0, 0, 24 * 16);
    const double error = ((total / (step + 1) - sum).norm() / sum.norm()).item<double>();
    if (step == 0 || step == kSteps / 4 || step == kSteps - 1) errors.push_back(error);
  }
  EXPECT_GT(errors[0], 0.5);  // only rank 1 of a random matrix
  EXPECT_LT(errors[2], 0.08);
  EXPECT_NEAR(errors[2] / errors[1], 0.25, 0.1);  // falls as 1 / steps
}

/// A gradient of zeros, or with fewer directions than Q has, must not make later steps lose gradients.
TEST(PowerSgd, SeesGradientsAgainAfterZeros) {
  const Bucket bucket = make_bucket(2, {{16, 16}});
  const at::Tensor late = draw({16, 1}, "a").mm(draw({1, 16}, "b")) + draw({16, 1}, "c").mm(draw({1, 16}, "d"));
  const auto sums = reduce_steps(2, 2, bucket, 2, at::kDouble, 6, [&](int, int step, at::Tensor& flat) {
    if (step < 2) return;
    if (step < 4) flat.copy_(draw({16, 1}, "e").mm(draw({1, 16}, "f")).flatten());
    else flat.copy_(late.flatten());
  });
  EXPECT_EQ(sums[1].abs().max().item<double>(), 0);
  EXPECT_LE((sums[5] - 2 * late.flatten()).abs().max().item<double>(), 1e-11);
}

/// What workers leave to those that go on.
struct Left {
  at::Tensor error, factor;  ///< the sum of the errors; undefined: none
  int64_t reductions = 0;
};

/// Reduces `steps` gradients, of which each worker has a part, and goes on from what `left` has. Returns the results.
std::vector<at::Tensor> go_on(int workers, int steps, Left& left, const std::function<at::Tensor(int64_t)>& whole_at) {
  const Bucket bucket = make_bucket(workers, {{12, 10}});
  std::vector<at::Tensor> sums;
  std::vector<Left> own(static_cast<size_t>(workers));
  test_support::run_ranks(workers, [&](Communicator& world) {
    const int rank = world.rank();
    PowerSgd power(bucket, 2, true, at::kDouble);
    power.initialize(kSeed, left.reductions);
    const FactorPiece piece = power.pieces().at(0);
    if (left.error.defined()) {
      piece.error.copy_(left.error / workers);
      piece.factor.copy_(left.factor);
    }
    for (int64_t step = left.reductions; step < left.reductions + steps; ++step) {
      at::Tensor flat = at::zeros({bucket.elements}, at::kDouble);
      flat.narrow(0, 0, 120).copy_(whole_at(step) * 2 * (rank + 1) / (workers * (workers + 1)));
      power.all_reduce(flat, world);
      if (rank == 0) sums.push_back(flat.narrow(0, 0, 120).clone());
    }
    own[size_t(rank)] = {.error = piece.error, .factor = piece.factor};
  });
  left.error = at::zeros({120}, at::kDouble);
  for (const Left& worker : own) {
    left.error += worker.error;
    EXPECT_TRUE(at::equal(worker.factor, own[0].factor));
  }
  left.factor = own[0].factor;
  left.reductions += steps;
  return sums;
}

/// Another number of workers goes on with the sum of errors and Q: the sums are those of workers that did not stop. The
/// first gradients are zero, so that Q's columns are drawn anew, before and after the first stop.
TEST(PowerSgd, AnyNumberOfWorkersGoesOnWithWhatIsLeft) {
  const auto whole_at = [](int64_t step) {
    return step < 2 ? at::zeros({120}, at::kDouble) : draw({120}, fmt::format("whole{}", step));
  };
  Left uninterrupted, left;
  const std::vector<at::Tensor> expected = go_on(2, 8, uninterrupted, whole_at);
  at::Tensor owed = at::zeros({120}, at::kDouble);
  for (const auto& [workers, steps] : {std::pair(2, 1), std::pair(3, 3), std::pair(1, 2), std::pair(4, 2)}) {
    const int64_t first = left.reductions;
    const std::vector<at::Tensor> sums = go_on(workers, steps, left, whole_at);
    for (int64_t step = first; step < left.reductions; ++step) {
      const at::Tensor &got = sums.at(size_t(step - first)), &wanted = expected.at(size_t(step));
      EXPECT_LE((got - wanted).abs().max().item<double>(), 1e-10) << "step " << step << ", " << workers << " workers";
      owed += whole_at(step) - got;
    }
    EXPECT_LE((left.error - owed).abs().max().item<double>(), 1e-11) << "what the sums lack so far";
  }
  EXPECT_GT(owed.abs().max().item<double>(), 0.1);
}

TEST(PowerSgd, NanStaysVisible) {
  const Bucket bucket = make_bucket(2, {{16, 16}});
  const auto sums =
      reduce_steps(2, 2, bucket, 2, at::kFloat, 1, [&](int, int, at::Tensor& flat) { flat.fill_(std::nan("")); });
  EXPECT_TRUE(sums[0].isnan().all().item<bool>());
}

TEST(PowerSgd, SendsFactorsOnly) {
  constexpr int kWorkers = 4, kRank = 2;
  const Bucket bucket = make_bucket(kWorkers, {{64, 3, 3, 3}, {64}, {4, 3}});
  int64_t bytes = 0;
  reduce_steps(
      kWorkers, kWorkers, bucket, kRank, at::kFloat, 1, [](int, int, at::Tensor& flat) { flat.fill_(1); }, &bytes);
  // First P and the uncompressed parameters, then Q.
  const int64_t expected =
      all_reduce_bytes(64 * kRank + 64 + 12, 4, kWorkers, 0) + all_reduce_bytes(27 * kRank, 4, kWorkers, 0);
  EXPECT_EQ(bytes, expected);
  EXPECT_LT(bytes, all_reduce_bytes(bucket.elements, 4, kWorkers, 0) / 5);
}

TEST(PowerSgd, PaysOnlyForMatricesLargeEnough) {
  EXPECT_FALSE(PowerSgd::pays({1000}, 1));
  EXPECT_FALSE(PowerSgd::pays({}, 1));
  EXPECT_FALSE(PowerSgd::pays({4, 4}, 2));
  EXPECT_TRUE(PowerSgd::pays({5, 4}, 2));
  EXPECT_TRUE(PowerSgd::pays({8, 2, 3, 3}, 2));
  EXPECT_FALSE(PowerSgd::pays({1, 1000}, 1));
  EXPECT_FALSE(PowerSgd::pays({0, 5}, 1));
}

TEST(OrthonormaliseColumns, EvenNearlyDependentOnes) {
  at::Tensor matrix = draw({50, 4}, "columns");
  matrix.select(1, 1).copy_(matrix.select(1, 0) + 1e-8 * matrix.select(1, 1));
  const at::Tensor before = matrix.clone();
  EXPECT_TRUE(orthonormalise_columns(matrix).empty());
  EXPECT_LE((matrix.t().mm(matrix) - at::eye(4, at::kDouble)).abs().max().item<double>(), 1e-13);
  // The columns span the same space: no part of the old columns lies outside it.
  EXPECT_LE((before - matrix.mm(matrix.t().mm(before))).abs().max().item<double>(), 1e-12);

  at::Tensor dependent = draw({6, 3}, "dependent").to(at::kFloat);
  dependent.select(1, 1).zero_();
  EXPECT_EQ(orthonormalise_columns(dependent), std::vector<int64_t>{1});
  EXPECT_EQ(dependent.select(1, 1).abs().max().item<float>(), 0);
  EXPECT_NEAR(dependent.select(1, 2).norm().item<float>(), 1, 1e-6);
  at::Tensor wide = draw({2, 3}, "wide");  // a space of two dims has no third direction
  EXPECT_EQ(orthonormalise_columns(wide), std::vector<int64_t>{2});
}

TEST(RoundedAllReduce, RoundsSummandsAddsWide) {
  // 256 + 1 + 1 + 1: in bfloat16, with 8 bits, the sum would stay 256.
  test_support::run_ranks(4, [](Communicator& world) {
    at::Tensor flat = at::full({40}, world.rank() == 0 ? 256.0 : 1.0009765625, at::kFloat);
    const int64_t before = world.count().bytes_sent;
    all_reduce_as_bfloat16(flat, world);
    EXPECT_TRUE(at::equal(flat, at::full({40}, 260.0, at::kFloat))) << flat[0].item<float>();  // 259 rounded to even
    EXPECT_EQ(world.count().bytes_sent - before, all_reduce_bytes(40, 2, 4, world.rank()));
  });
}

}  // namespace
}  // namespace trireme
