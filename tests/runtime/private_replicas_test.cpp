// Compares private replicas with one plain copy of the weights trained in double, for every level of optimizer sharding
// and buckets made by hand.
#include "runtime/replicas/private_replicas.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "../base/expect_error.h"
#include "../support/ranks.h"
#include "base/random.h"
#include "replica_cases.h"

namespace trireme {
namespace {

const std::vector<Level> kLevels{Level::none, Level::zero1, Level::zero2, Level::zero3};

/// One copy trained in double by PyTorch's formulas: weights by bucket and version, sums of squares of all gradients by
/// batch.
struct Reference {
  std::vector<std::vector<at::Tensor>> weights;
  std::vector<double> squares;
};

Reference reference(const Program& program, const OptimizerConfig& c, int64_t batches, at::ScalarType drawn_as) {
  Reference result{{}, std::vector<double>(size_t(batches))};
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    at::Tensor drawn = at::zeros({bucket.elements}, drawn_as);
    draw_initial_values(program, b, kSeed, drawn);
    at::Tensor w = drawn.to(at::kDouble, false, true), m = at::zeros_like(w), v = at::zeros_like(w);
    result.weights.push_back({w.clone()});
    for (int64_t t = 1; t <= batches; ++t) {
      at::Tensor g = at::zeros_like(w);
      for (int rank : bucket.contributors)
        for (int micro = 0; micro < program.micro_batches; ++micro)
          for (size_t s = 0; s < bucket.shards.size(); ++s) {
            const at::Tensor part = contribution(bucket, b, int(s), rank, t - 1, micro);
            if (part.defined()) g.narrow(0, bucket.shards[s].offset, part.numel()).add_(part);
          }
      result.squares[size_t(t - 1)] += g.square().sum().item<double>();
      g = g * kScale + c.weight_decay * w;
      if (bucket.contributors.empty()) {
      } else if (c.kind == &kSgd) {
        m = c.momentum * m + g;
        w = w - kLearningRate * m;
      } else {
        m = c.beta1 * m + (1 - c.beta1) * g;
        v = c.beta2 * v + (1 - c.beta2) * g * g;
        w = w -
            kLearningRate * (m / (1 - std::pow(c.beta1, t))) / ((v / (1 - std::pow(c.beta2, t))).sqrt() + c.epsilon);
      }
      result.weights.back().push_back(w.clone());
    }
  }
  return result;
}

at::Tensor read_weights(Replicas& replicas, BucketId b, int64_t version) {
  replicas.await_weights(b, version);
  replicas.gather(b);
  at::Tensor weights = replicas.weights(b, version).clone();
  replicas.release(b);
  return weights;
}

/// Results of each rank: weights by rank, bucket and version (undefined if the rank holds none), squares by rank and
/// batch.
struct Seen {
  std::vector<std::vector<std::vector<at::Tensor>>> weights;
  std::vector<std::vector<double>> squares;
};

Seen train(const Program& program, Precision precision, const OptimizerConfig& optimizer, int64_t batches) {
  const auto n = size_t(program.devices);
  Seen seen{{}, std::vector(n, std::vector<double>(size_t(batches)))};
  seen.weights.assign(n, std::vector(program.buckets.size(), std::vector<at::Tensor>(size_t(batches) + 1)));
  test_support::run_ranks(program.devices, [&](Communicator& world) {
    const c10::InferenceMode as_workers_do;
    const int rank = world.rank();
    const auto replicas = private_replicas(rank, program, precision, world, optimizer);
    replicas->initialize(kSeed);
    world.barrier();
    for (int64_t t = 0; t <= batches; ++t) {
      for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
        if (!holds(program.buckets[size_t(b)], rank)) continue;
        if (b % 2 == 0) replicas->prefetch(b);
        seen.weights[size_t(rank)][size_t(b)][size_t(t)] = read_weights(*replicas, b, t);
      }
      if (t < batches) train_step(*replicas, program, rank, t, &seen.squares[size_t(rank)][size_t(t)]);
    }
    replicas->settle();
  });
  return seen;
}

void expect_same(const Program& program, const Seen& seen, const Reference& truth, double tolerance) {
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const int first = program.buckets[b].holders[0];
    for (size_t t = 0; t < truth.weights[b].size(); ++t) {
      const at::Tensor& got = seen.weights[size_t(first)][b][t];
      EXPECT_LE((got.to(at::kDouble) - truth.weights[b][t]).abs().max().item<double>(), tolerance)
          << "bucket " << b << " version " << t;
      for (int holder : program.buckets[b].holders)
        EXPECT_TRUE(at::equal(seen.weights[size_t(holder)][b][t], got))
            << "bucket " << b << " version " << t << " on " << holder;
    }
  }
  for (size_t t = 0; t < truth.squares.size(); ++t) {
    double sum = 0;
    for (const auto& squares : seen.squares) sum += squares[t];
    EXPECT_NEAR(sum, truth.squares[t], tolerance * truth.squares[t]);
  }
}

std::string name_of_level(const ::testing::TestParamInfo<Level>& info) {
  return std::vector<std::string>{"none", "zero1", "zero2", "zero3"}[size_t(info.param)];
}

class EveryLevel : public ::testing::TestWithParam<Level> {};
INSTANTIATE_TEST_SUITE_P(PrivateReplicas, EveryLevel, ::testing::ValuesIn(kLevels), name_of_level);

TEST_P(EveryLevel, EqualsOneCopy) {
  for (const OptimizerConfig& optimizer : {momentum(), adam()})
    for (int micro_batches : {1, 3}) {
      const Program program = make_program(3, GetParam(), mixed_buckets(), micro_batches);
      expect_same(program, train(program, Precision::fp64, optimizer, 5), reference(program, optimizer, 5, at::kDouble),
                  1e-12);
    }
}

TEST_P(EveryLevel, EqualsOneCopyInSinglePrecision) {
  const Program program = make_program(3, GetParam(), mixed_buckets(), 2);
  expect_same(program, train(program, Precision::fp32, momentum(), 5), reference(program, momentum(), 5, at::kFloat),
              1e-5);
}

/// The bucket's `field`, assembled from the pieces of all holders; pieces that overlap must be equal.
at::Tensor assemble(const Program& program, BucketId b, const std::vector<std::unique_ptr<Replicas>>& replicas,
                    const at::Tensor ReplicaPiece::*field) {
  const int64_t elements = program.buckets[size_t(b)].elements;
  at::Tensor whole, covered = at::zeros({elements}, at::kBool);
  for (const auto& worker : replicas)
    for (const ReplicaPiece& piece : worker->pieces(b)) {
      const at::Tensor& part = piece.*field;
      if (!part.defined()) continue;
      EXPECT_EQ(part.numel(), piece.range.size());
      if (!whole.defined()) whole = at::zeros({elements}, part.options());
      at::Tensor there = covered.narrow(0, piece.range.begin, piece.range.size());
      at::Tensor target = whole.narrow(0, piece.range.begin, piece.range.size());
      EXPECT_TRUE(at::equal(at::where(there, target, part), part)) << "bucket " << b;
      target.copy_(part);
      there.fill_(true);
    }
  EXPECT_TRUE(!whole.defined() || covered.all().item<bool>()) << "bucket " << b;
  return whole;
}

/// Sets every piece, like the code that restores weights.
void set_weights(const Program& program, BucketId b, const std::vector<std::unique_ptr<Replicas>>& replicas,
                 const at::Tensor& flat) {
  for (const auto& worker : replicas)
    for (ReplicaPiece& piece : worker->pieces(b)) {
      const at::Tensor part = flat.narrow(0, piece.range.begin, piece.range.size());
      if (piece.master.defined()) piece.master.copy_(part);
      if (!piece.compute.is_same(piece.master)) piece.compute.copy_(part);
    }
}

TEST_P(EveryLevel, Bfloat16KeepsMastersAndGradients) {
  Program program = make_program(3, GetParam(), mixed_buckets(), 2);
  program.keeps_gradients = true;
  const Reference truth = reference(program, adam(), 4, at::kFloat);
  std::vector<std::unique_ptr<Replicas>> replicas(3);
  test_support::run_ranks(3, [&](Communicator& world) {
    const int rank = world.rank();
    auto& mine = replicas[size_t(rank)];
    {
      const c10::InferenceMode as_workers_do;
      mine = private_replicas(rank, program, Precision::bf16, world, adam());
      mine->initialize(kSeed);
      world.barrier();
      double squares = 0;
      for (int64_t t = 0; t < 4; ++t) train_step(*mine, program, rank, t, &squares);
      world.barrier();
    }
    if (rank == 0)
      for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
        const Bucket& bucket = program.buckets[size_t(b)];
        const at::Tensor master = assemble(program, b, replicas, &ReplicaPiece::master);
        const at::Tensor compute = assemble(program, b, replicas, &ReplicaPiece::compute);
        const at::Tensor reduced = assemble(program, b, replicas, &ReplicaPiece::reduced);
        EXPECT_LE((master.to(at::kDouble) - truth.weights[size_t(b)][4]).abs().max().item<double>(), 1e-5)
            << "bucket " << b;
        EXPECT_EQ(compute.scalar_type(), bucket.full_precision ? at::kFloat : at::kBFloat16);
        EXPECT_TRUE(at::equal(compute, master.to(compute.scalar_type()))) << "bucket " << b;
        EXPECT_EQ(reduced.defined(), !bucket.contributors.empty()) << "bucket " << b;
      }
    world.barrier();
    if (rank == 0)
      for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
        set_weights(program, b, replicas, at::arange(program.buckets[size_t(b)].elements, at::kFloat));
    world.barrier();
    for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
      if (holds(program.buckets[size_t(b)], rank)) {
        const at::Tensor weights = read_weights(*mine, b, program.buckets[size_t(b)].contributors.empty() ? 0 : 4);
        EXPECT_TRUE(at::equal(weights, at::arange(weights.numel(), at::kFloat).to(weights.scalar_type())))
            << "bucket " << b;
      }
    world.barrier();
  });
}

TEST_P(EveryLevel, KeepsTheSumOfTheGradients) {
  Program program = make_program(3, GetParam(), mixed_buckets(), 2);
  program.keeps_gradients = true;
  std::vector<std::unique_ptr<Replicas>> replicas(3);
  test_support::run_ranks(3, [&](Communicator& world) {
    const int rank = world.rank();
    auto& mine = replicas[size_t(rank)] = private_replicas(rank, program, Precision::fp64, world, momentum());
    mine->initialize(kSeed);
    double squares = 0;
    for (int64_t t = 0; t < 3; ++t) train_step(*mine, program, rank, t, &squares);
    world.barrier();
  });
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (bucket.contributors.empty()) continue;
    at::Tensor sum = at::zeros({bucket.elements}, at::kDouble);
    for (int rank = 0; rank < 3; ++rank)
      for (int micro = 0; micro < 2; ++micro)
        for (size_t s = 0; s < bucket.shards.size(); ++s) {
          const at::Tensor part = contribution(bucket, b, int(s), rank, 2, micro);
          if (part.defined()) sum.narrow(0, bucket.shards[s].offset, part.numel()).add_(part);
        }
    EXPECT_TRUE(at::allclose(assemble(program, b, replicas, &ReplicaPiece::reduced), sum, 1e-13, 1e-13))
        << "bucket " << b;
  }
}

TEST_P(EveryLevel, OneWorkerNeedsNoOthers) {
  const Program program = make_program(1, GetParam(), {{{0}, {0}, {{5, 5}, {3}}}, {{0}, {}, {{4}}}}, 3);
  expect_same(program, train(program, Precision::fp64, adam(), 4), reference(program, adam(), 4, at::kDouble), 1e-12);
}

TEST(PrivateReplicas, OldVersionsStayForAWhile) {
  for (Level level : {Level::none, Level::zero1})
    for (Precision precision : {Precision::fp64, Precision::bf16}) {
      const Program program = make_program(2, level, {{{0, 1}, {0, 1}, {{7, 7}, {20}}, 3}, {{0, 1}, {}, {{8}}, 3}});
      const Seen newest = train(program, precision, momentum(), 5);
      if (precision == Precision::fp64)
        expect_same(program, newest, reference(program, momentum(), 5, at::kDouble), 1e-12);
      test_support::run_ranks(2, [&](Communicator& world) {
        const int rank = world.rank();
        const auto replicas = private_replicas(rank, program, precision, world, momentum());
        replicas->initialize(kSeed);
        double squares = 0;
        for (int64_t t = 0; t < 5; ++t) {
          train_step(*replicas, program, rank, t, &squares);
          for (int64_t v = std::max<int64_t>(0, t - 1); v <= t + 1; ++v) {
            EXPECT_TRUE(at::equal(replicas->weights(0, v), newest.weights[size_t(rank)][0][size_t(v)]))
                << t << " " << v;
            EXPECT_TRUE(at::equal(replicas->weights(1, v), newest.weights[size_t(rank)][1][0]));
          }
        }
        expect_error(Blame::run, {"internal error", "version 2"}, [&] { replicas->weights(0, 2); });
        expect_error(Blame::run, {"internal error", "version 6"}, [&] { replicas->weights(0, 6); });
      });
    }
}

TEST(PrivateReplicas, RefusesWhatTheCompilerMustRefuse) {
  auto construct = [](const Program& program) {
    test_support::run_ranks(
        2, [&](Communicator& world) { private_replicas(world.rank(), program, Precision::fp32, world, momentum()); });
  };
  for (Level level : {Level::zero2, Level::zero3})
    expect_error(Blame::run, {"internal error", "versions"}, [&] {
      construct(make_program(2, level, {{{0, 1}, {0, 1}, {{8}}, 2}}));
    });
  for (Level level : {Level::zero1, Level::zero2, Level::zero3}) {
    Program program = make_program(2, level, {{{0, 1}, {0, 1}, {{8}}}});
    program.compression = {Compression::Kind::powersgd, 2};
    expect_error(Blame::run, {"internal error", "PowerSGD"}, [&] { construct(program); });
  }
}

/// zero3 sends slices without copying them: a late reader must still read the values of its step.
TEST(PrivateReplicas, LateReadersSeeTheirOwnStep) {
  constexpr int64_t kBatches = 12;
  const Program program = make_program(
      4, Level::zero3,
      {{{0, 1, 2, 3}, {0, 1, 2, 3}, {{300}}}, {{0, 1, 2, 3}, {2}, {{70, 3}}}, {{0, 1, 3}, {0, 3}, {{64}}}});
  const Reference truth = reference(program, momentum(), kBatches, at::kDouble);
  test_support::run_ranks(4, [&](Communicator& world) {
    const int rank = world.rank();
    const auto replicas = private_replicas(rank, program, Precision::fp64, world, momentum());
    replicas->initialize(kSeed);
    world.barrier();
    const Philox random(random_key(kSeed, fmt::format("delays/{}", rank)));
    uint64_t drawn = 0;
    double squares = 0;
    for (int64_t t = 0; t < kBatches; ++t) {
      for (int pass = 0; pass < 2; ++pass)
        for (BucketId b = 0; b < 3; ++b) {
          if (!holds(program.buckets[size_t(b)], rank)) continue;
          replicas->prefetch(b);
          std::this_thread::sleep_for(std::chrono::microseconds(int64_t(400 * random.uniform(drawn++))));
          const at::Tensor weights = read_weights(*replicas, b, t);
          EXPECT_LE((weights - truth.weights[size_t(b)][size_t(t)]).abs().max().item<double>(), 1e-12)
              << "bucket " << b << " step " << t;
        }
      train_step(*replicas, program, rank, t, &squares);
    }
  });
}

TEST(PrivateReplicas, ReplicasAgreeBitForBitFromRunToRun) {
  for (Level level : kLevels) {
    const Program program = make_program(3, level, mixed_buckets(), 2);
    const Seen a = train(program, Precision::fp32, adam(), 3), b = train(program, Precision::fp32, adam(), 3);
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t bucket = 0; bucket < program.buckets.size(); ++bucket)
        if (holds(program.buckets[bucket], int(rank))) {
          EXPECT_TRUE(at::equal(a.weights[rank][bucket][3], b.weights[rank][bucket][3]));
        }
  }
}

TEST(PrivateReplicas, RoundedGradientsTakeHalfTheBytes) {
  for (Level level : kLevels) {
    std::vector<int64_t> bytes;
    std::vector<Seen> seen;
    for (auto kind : {Compression::Kind::none, Compression::Kind::bf16, Compression::Kind::bf16_stored}) {
      Program program = make_program(2, level, {{{0, 1}, {0, 1}, {{64, 16}}}, {{0, 1}, {1}, {{32}}}}, 2);
      program.compression.kind = kind;
      seen.push_back(train(program, Precision::fp32, momentum(), 3));
      for (size_t b = 0; b < 2; ++b) EXPECT_TRUE(at::equal(seen.back().weights[0][b][3], seen.back().weights[1][b][3]));
      test_support::run_ranks(2, [&](Communicator& world) {
        const auto replicas = private_replicas(world.rank(), program, Precision::fp32, world, momentum());
        replicas->initialize(kSeed);
        for (BucketId b = 0; b < 2; ++b) {
          add_gradient(*replicas, program, b, world.rank(), 0, 0);
          replicas->reduce(b, true);
        }
        if (world.rank() == 0) bytes.push_back(world.count().bytes_sent);
      });
    }
    for (size_t rounded : {1, 2}) {
      EXPECT_EQ(bytes[0], 2 * bytes[rounded]);
      const double difference = (seen[0].weights[0][0][3] - seen[rounded].weights[0][0][3]).abs().max().item<double>();
      EXPECT_GT(difference, 0);
      EXPECT_LT(difference, 0.02);  // gradients of a few units rounded to 8 bits, three steps of 0.05
    }
  }
}

TEST(PrivateReplicas, MisuseIsRefused) {
  const Program program =
      make_program(2, Level::zero3, {{{0, 1}, {0, 1}, {{64}}}, {{0, 1}, {}, {{16}}}, {{0}, {0}, {{16}}}});
  test_support::run_ranks(2, [&](Communicator& world) {
    const auto replicas = private_replicas(world.rank(), program, Precision::fp32, world, momentum());
    replicas->initialize(kSeed);
    world.barrier();
    expect_error(Blame::run, {"between gather and release"}, [&] { replicas->weights(0, 0); });
    replicas->gather(0);
    expect_error(Blame::run, {"released before"}, [&] { replicas->gather(0); });
    replicas->reduce(0, true);
    expect_error(Blame::run, {"released before they are updated"}, [&] { replicas->update(0, 0.1, 1); });
    replicas->release(0);
    expect_error(Blame::run, {"not gathered between"}, [&] { replicas->prefetch(0); });
    expect_error(Blame::run, {"not gathered between"}, [&] { replicas->gather(0); });
    expect_error(Blame::run, {"frozen"}, [&] { replicas->reduce(1, true); });
    if (world.rank() == 1) expect_error(Blame::run, {"does not hold"}, [&] { replicas->gradient(2); });
    world.barrier();
  });
}

}  // namespace
}  // namespace trireme
