// Programs made by hand for private replicas: buckets without a model, random gradients by worker, batch and
// micro-batch.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/replicas/replicas.h"

namespace trireme {

using Level = OptimizerSharding;

constexpr uint64_t kSeed = 3;
constexpr double kLearningRate = 0.1, kScale = 0.5;

struct BucketShape {
  std::vector<int> holders, contributors;
  std::vector<Shape> shards;
  int versions = 1;
  bool full_precision = false;
};

inline Program make_program(int devices, Level level, const std::vector<BucketShape>& shapes, int micro_batches = 1) {
  Program program;
  program.private_replicas = true;
  program.optimizer_sharding = level;
  program.devices = devices;
  program.micro_batches = micro_batches;
  for (const BucketShape& shape : shapes) {
    Bucket bucket;
    bucket.holders = shape.holders;
    bucket.contributors = shape.contributors;
    bucket.versions = shape.versions;
    bucket.full_precision = shape.full_precision;
    for (const Shape& s : shape.shards) {
      const int parameter = int(program.parameters.size());
      program.parameters.push_back(
          {{fmt::format("p{}", parameter), s, Init::normal(0, 1)}, !shape.contributors.empty()});
      bucket.shards.push_back({parameter, whole(s), bucket.elements});
      bucket.elements += (element_count(s) + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
    }
    program.buckets.push_back(std::move(bucket));
  }
  return program;
}

/// Buckets with unequal slices, slices that are empty on some holders or cut shards, frozen buckets, and buckets with
/// fewer contributors than holders.
inline std::vector<BucketShape> mixed_buckets() {
  return {{{0, 1, 2}, {0, 1, 2}, {{7, 5}, {5}, {3, 2, 3, 3}}},
          {{0, 1}, {0, 1}, {{40}}},
          {{0, 1, 2}, {1}, {{9, 11}}},
          {{0, 2}, {}, {{6, 6}}},  // frozen
          {{0, 1, 2}, {0, 2}, {{2}}},
          {{1}, {1}, {{33}, {4, 4}}},
          {{0, 1, 2}, {0, 1, 2}, {{50}, {17}}, 1, true}};
}

inline OptimizerConfig momentum() { return {.kind = &kSgd, .momentum = 0.9, .weight_decay = 0.01}; }
inline OptimizerConfig adam() { return {.kind = &kAdam}; }

/// The gradient that `rank` adds to a shard in a micro-batch; undefined if its layers give none.
inline at::Tensor contribution(const Bucket& bucket, BucketId b, int shard, int rank, int64_t batch, int micro) {
  if (std::find(bucket.contributors.begin(), bucket.contributors.end(), rank) == bucket.contributors.end()) return {};
  const Philox random(random_key(kSeed, fmt::format("{}/{}/{}/{}/{}", b, shard, rank, batch, micro)));
  if (random.uniform(1 << 20) < 0.25) return {};
  at::Tensor values = at::empty({bucket.shards[size_t(shard)].size()}, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return values;
}

inline bool holds(const Bucket& bucket, int rank) {
  return std::find(bucket.holders.begin(), bucket.holders.end(), rank) != bucket.holders.end();
}

inline void add_gradient(Replicas& replicas, const Program& program, BucketId b, int rank, int64_t batch, int micro) {
  const Bucket& bucket = program.buckets[size_t(b)];
  for (size_t s = 0; s < bucket.shards.size(); ++s) {
    const at::Tensor part = contribution(bucket, b, int(s), rank, batch, micro);
    if (!part.defined()) continue;
    const at::Tensor place = replicas.gradient(b).narrow(0, bucket.shards[s].offset, part.numel());
    if (replicas.written(b, int(s))) place.add_(part);
    else place.copy_(part);
    replicas.written(b, int(s)) = true;
  }
}

/// One step in the order of a compiled program: whole gradients are reduced once, divided gradients after each
/// micro-batch.
inline void train_step(Replicas& replicas, const Program& program, int rank, int64_t batch, double* squares) {
  const bool each = program.optimizer_sharding == Level::zero2 || program.optimizer_sharding == Level::zero3;
  const auto buckets = BucketId(program.buckets.size());
  auto trains = [&](BucketId b) {
    return holds(program.buckets[size_t(b)], rank) && !program.buckets[size_t(b)].contributors.empty();
  };
  for (int micro = 0; micro < program.micro_batches; ++micro) {
    const bool last = micro + 1 == program.micro_batches;
    for (BucketId b = 0; b < buckets; ++b) {
      if (!trains(b)) continue;
      add_gradient(replicas, program, b, rank, batch, micro);
      if (each || last) replicas.reduce(b, last);
    }
  }
  for (BucketId b = 0; b < buckets; ++b)
    if (trains(b)) *squares += replicas.square_sum(b);
  for (BucketId b = 0; b < buckets; ++b)
    if (trains(b)) replicas.update(b, kLearningRate, kScale);
}

}  // namespace trireme
