// Compares the bytes that private replicas charge to their workers with ZeRO's formulas.
#include <gtest/gtest.h>

#include <utility>

#include "../support/ranks.h"
#include "base/memory.h"
#include "replica_cases.h"

namespace trireme {
namespace {

/// Runs steps that hold one bucket's weights and gradient at a time. Returns the bytes at rest and at the peak.
std::pair<int64_t, int64_t> memory_of(Level level, int n, const OptimizerConfig& optimizer,
                                      const std::vector<BucketShape>& shapes) {
  install_memory_accounting();
  const Program program = make_program(n, level, shapes, 2);
  std::vector<int64_t> rest(static_cast<size_t>(n)), peak(static_cast<size_t>(n));
  test_support::run_ranks(n, [&](Communicator& world) {
    const int rank = world.rank();
    const DeviceScope device(rank);
    const int64_t before = memory_use(rank).total();
    const auto replicas = private_replicas(rank, program, Precision::fp32, world, optimizer);
    replicas->initialize(kSeed);
    reset_memory_peak(rank);
    for (int64_t t = 0; t < 3; ++t) {
      for (int micro = 0; micro < 2; ++micro)
        for (BucketId b = 0; b < BucketId(shapes.size()); ++b) {
          replicas->gather(b);
          const at::Tensor gradient = replicas->gradient(b);
          if (gradient.defined()) gradient.fill_(1);
          for (size_t s = 0; s < shapes[size_t(b)].shards.size(); ++s)
            replicas->written(b, int(s)) = gradient.defined();
          replicas->release(b);
          if (level >= Level::zero2 || micro == 1) replicas->reduce(b, micro == 1);
        }
      for (BucketId b = 0; b < BucketId(shapes.size()); ++b) replicas->square_sum(b);
      for (BucketId b = 0; b < BucketId(shapes.size()); ++b) replicas->update(b, kLearningRate, 1);
    }
    world.barrier();
    rest[size_t(rank)] = memory_use(rank).total() - before;
    peak[size_t(rank)] = memory_use(rank).peak - before;
    world.barrier();
  });
  return {*std::max_element(rest.begin(), rest.end()), *std::max_element(peak.begin(), peak.end())};
}

TEST(ReplicaMemory, AsTheFormulasSay) {
  for (int n : {2, 4})
    for (const OptimizerConfig& optimizer : {momentum(), adam()})
      for (Level level : {Level::none, Level::zero1, Level::zero2, Level::zero3}) {
        std::vector<int> all;
        for (int rank = 0; rank < n; ++rank) all.push_back(rank);
        const std::vector<BucketShape> shapes{
            {all, all, {{300, 200}, {1000}}}, {all, all, {{500, 201}}}, {all, all, {{7777}, {111, 111}}}};
        double p = 0, largest = 0;
        for (const BucketShape& shape : shapes) {
          double bucket = 0;
          for (const Shape& s : shape.shards) bucket += double(element_count(s));
          p += bucket;
          largest = std::max(largest, bucket);
        }
        const double k = optimizer_state_count(optimizer);
        const double expected = level == Level::none    ? 4 * p * (2 + k)
                                : level == Level::zero1 ? 4 * p * 2 + 4 * p * k / n
                                : level == Level::zero2 ? 4 * p + 4 * p * (1 + k) / n
                                                        : 4 * p * (2 + k) / n;
        // During a layer's backward: the gradient and the weights of its bucket.
        const double passing = level == Level::zero2 ? 4 * largest : level == Level::zero3 ? 8 * largest : 0;
        // The norm is summed in double over blocks.
        constexpr double kSmall = 40000;
        const auto [rest, peak] = memory_of(level, n, optimizer, shapes);
        EXPECT_NEAR(double(rest), expected, 0.05 * expected) << "level " << int(level) << " n " << n << " k " << k;
        EXPECT_LE(double(peak), 1.02 * (expected + passing) + kSmall)
            << "level " << int(level) << " n " << n << " k " << k;
        EXPECT_GE(double(peak), 0.98 * (expected + passing)) << "level " << int(level) << " n " << n << " k " << k;
      }
}

TEST(ReplicaMemory, WorkersThatContributeNothingKeepNoGradient) {
  install_memory_accounting();
  const Program program = make_program(2, Level::none, {{{0, 1}, {1}, {{100, 100}}}});
  test_support::run_ranks(2, [&](Communicator& world) {
    const int rank = world.rank();
    const DeviceScope device(rank);
    const auto gradients = [&] { return memory_use(rank).current[size_t(MemoryCategory::gradients)]; };
    const int64_t before = gradients();
    const auto replicas = private_replicas(rank, program, Precision::fp32, world, momentum());
    replicas->initialize(kSeed);
    double squares = 0;
    train_step(*replicas, program, rank, 0, &squares);
    EXPECT_EQ(gradients() - before, rank == 0 ? 0 : 4 * program.buckets[0].elements);
    world.barrier();
  });
}

}  // namespace
}  // namespace trireme
