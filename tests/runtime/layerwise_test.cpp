// LARS, LAMB and averaged weights with private replicas, compared with whole parameters in double. Slices of buckets
// cut parameters, and some parameters have other holders than others.
#include "runtime/layerwise.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "../base/expect_error.h"
#include "../support/ranks.h"
#include "replica_cases.h"

namespace trireme {
namespace {

const std::vector<Level> kLevels{Level::none, Level::zero1, Level::zero2, Level::zero3};
constexpr int64_t kBatches = 4;

/// mixed_buckets and one more matrix: each half lies in its own bucket on other workers.
Program program_of(Level level, int micro_batches) {
  Program program = make_program(3, level, mixed_buckets(), micro_batches);
  const int parameter = int(program.parameters.size());
  const Shape shape{4, 9};
  program.parameters.push_back({{"halves", shape, Init::normal(0, 1)}, true});
  for (int half = 0; half < 2; ++half) {
    Bucket bucket;
    bucket.holders = bucket.contributors = half == 0 ? std::vector<int>{0, 2} : std::vector<int>{1};
    Box box = whole(shape);
    box[0] = share_of(shape[0], 2, half);
    bucket.shards.push_back({parameter, box, 0});
    bucket.elements = (bucket.shards[0].size() + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
    program.buckets.push_back(bucket);
  }
  return program;
}

OptimizerConfig lars() { return {.kind = &kLars, .momentum = 0.9, .weight_decay = 0.05, .trust = 0.1, .ema = 0.7}; }
OptimizerConfig lamb() { return {.kind = &kLamb, .weight_decay = 0.05, .epsilon = 1e-3, .ema = 0.7}; }

/// The elements of a parameter in the order of its buckets and shards.
struct Whole {
  at::Tensor weights, average;
};

/// All parameters after each batch. Vectors take the plain step without weight decay.
std::vector<std::vector<Whole>> reference(const Program& program, const OptimizerConfig& c) {
  std::vector<std::vector<Whole>> result(size_t(kBatches) + 1, std::vector<Whole>(program.parameters.size()));
  for (size_t p = 0; p < program.parameters.size(); ++p) {
    std::vector<at::Tensor> drawn;
    std::vector<std::vector<at::Tensor>> gradients{size_t(kBatches)};
    for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
      const Bucket& bucket = program.buckets[size_t(b)];
      at::Tensor flat = at::zeros({bucket.elements}, at::kDouble);
      draw_initial_values(program, b, kSeed, flat);
      for (size_t s = 0; s < bucket.shards.size(); ++s) {
        if (bucket.shards[s].parameter != int(p)) continue;
        drawn.push_back(flat.narrow(0, bucket.shards[s].offset, bucket.shards[s].size()));
        for (int64_t t = 0; t < kBatches; ++t) {
          at::Tensor sum = at::zeros({bucket.shards[s].size()}, at::kDouble);
          for (int rank : bucket.contributors)
            for (int micro = 0; micro < program.micro_batches; ++micro) {
              const at::Tensor part = contribution(bucket, b, int(s), rank, t, micro);
              if (part.defined()) sum += part;
            }
          gradients[size_t(t)].push_back(sum);
        }
      }
    }
    at::Tensor w = at::cat(drawn), m = at::zeros_like(w), v = at::zeros_like(w), weighted = at::zeros_like(w);
    const bool adapted = program.parameters[p].spec.shape.size() > 1, frozen = !program.parameters[p].trainable;
    const double decay = adapted ? c.weight_decay : 0;
    auto norm = [](const at::Tensor& x) { return std::sqrt(x.square().sum().item<double>()); };
    double shares = 0;
    result[0][p] = {w.clone(), {}};
    for (int64_t t = 1; t <= kBatches; ++t) {
      at::Tensor g = kScale * at::cat(gradients[size_t(t - 1)]);
      if (c.kind == &kLars) {
        const double rate = adapted && norm(g) > 0 ? c.trust * norm(w) / (norm(g) + decay * norm(w)) : 1;
        m = c.momentum * m + kLearningRate * rate * (g + decay * w);
        if (!frozen) w = w - m;
      } else {
        m = c.beta1 * m + (1 - c.beta1) * g;
        v = c.beta2 * v + (1 - c.beta2) * g * g;
        const at::Tensor r =
            m / (1 - std::pow(c.beta1, t)) / ((v / (1 - std::pow(c.beta2, t))).sqrt() + c.epsilon) + decay * w;
        if (!frozen) w = w - kLearningRate * (adapted && norm(r) > 0 ? norm(w) / norm(r) : 1) * r;
      }
      weighted = c.ema * weighted + w;
      shares = c.ema * shares + 1;
      result[size_t(t)][p] = {w.clone(), weighted / shares};
    }
  }
  return result;
}

void layerwise_step(Replicas& replicas, const Program& program, const OptimizerConfig& optimizer, Communicator& world,
                    int64_t batch) {
  const int rank = world.rank();
  auto trains = [&](const Bucket& bucket) { return holds(bucket, rank) && !bucket.contributors.empty(); };
  const bool each = program.optimizer_sharding >= Level::zero2;
  for (int micro = 0; micro < program.micro_batches; ++micro) {
    const bool last = micro + 1 == program.micro_batches;
    for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
      if (!trains(program.buckets[size_t(b)])) continue;
      add_gradient(replicas, program, b, rank, batch, micro);
      if (each || last) replicas.reduce(b, last);
    }
  }
  at::Tensor totals = at::zeros({int64_t(program.parameters.size()), 2}, at::kDouble);
  const std::span sums(static_cast<SquareSums*>(totals.data_ptr()), program.parameters.size());
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    if (trains(program.buckets[size_t(b)])) replicas.measure(b, kScale, sums);
  world.all_reduce(totals);
  const std::vector<double> trust = trust_ratios(optimizer, program, sums);
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    if (trains(program.buckets[size_t(b)])) replicas.update(b, kLearningRate, kScale, trust);
}

/// Compares a replica's flat bucket with the reference, shard by shard.
void expect_bucket(const Program& program, BucketId b, const at::Tensor& flat, const std::vector<Whole>& truth,
                   const at::Tensor Whole::*part, double tolerance) {
  std::map<int, int64_t> begin;  // begin of the parameter's next shard in Whole
  for (BucketId other = 0; other <= b; ++other)
    for (const ParameterShard& shard : program.buckets[size_t(other)].shards) {
      const int64_t offset = begin[shard.parameter];
      begin[shard.parameter] += shard.size();
      if (other != b) continue;
      const at::Tensor expected = (truth[size_t(shard.parameter)].*part).narrow(0, offset, shard.size());
      EXPECT_LE((flat.narrow(0, shard.offset, shard.size()).to(at::kDouble) - expected).abs().max().item<double>(),
                tolerance)
          << "bucket " << b << ", parameter " << shard.parameter;
    }
}

void check(Level level, Precision precision, const OptimizerConfig& optimizer, int micro_batches, double tolerance) {
  const Program program = program_of(level, micro_batches);
  const auto truth = reference(program, optimizer);
  test_support::run_ranks(3, [&](Communicator& world) {
    const c10::InferenceMode as_workers_do;
    const int rank = world.rank();
    const auto replicas = private_replicas(rank, program, precision, world, optimizer);
    replicas->initialize(kSeed);
    world.barrier();
    auto held = [&](BucketId b) { return holds(program.buckets[size_t(b)], rank); };
    auto compare = [&](int64_t version, const at::Tensor Whole::*part) {
      for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
        if (!held(b) || (part == &Whole::average && program.buckets[size_t(b)].contributors.empty())) continue;
        replicas->gather(b);
        expect_bucket(program, b, replicas->weights(b, version), truth[size_t(version)], part, tolerance);
        replicas->release(b);
      }
      world.barrier();
    };
    auto exchange = [&] {
      for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
        if (held(b)) replicas->exchange_average(b);
      world.barrier();
    };
    exchange();  // without averages this changes nothing
    for (int64_t t = 0; t < kBatches; ++t) {
      compare(t, &Whole::weights);
      layerwise_step(*replicas, program, optimizer, world, t);
      exchange();
      compare(t + 1, &Whole::average);
      exchange();
    }
    compare(kBatches, &Whole::weights);
  });
}

std::string name_of_level(const ::testing::TestParamInfo<Level>& info) {
  return std::vector<std::string>{"none", "zero1", "zero2", "zero3"}[size_t(info.param)];
}

class LayerWise : public ::testing::TestWithParam<Level> {};
INSTANTIATE_TEST_SUITE_P(PrivateReplicas, LayerWise, ::testing::ValuesIn(kLevels), name_of_level);

TEST_P(LayerWise, EqualsWholeParameters) {
  for (const OptimizerConfig& optimizer : {lars(), lamb()})
    for (int micro_batches : {1, 2}) {
      SCOPED_TRACE(optimizer.kind->name);
      check(GetParam(), Precision::fp64, optimizer, micro_batches, 1e-12);
      check(GetParam(), Precision::fp32, optimizer, micro_batches, 1e-5);
      // The tolerance of bfloat16 copies of values of a few units.
      check(GetParam(), Precision::bf16, optimizer, micro_batches, 1.0 / 64);
    }
}

TEST(IsAdapted, ByTheNumberOfDims) {
  auto parameter = [](const Shape& shape) { return ParameterSpec{"p", shape, Init::normal(0, 1)}; };
  EXPECT_FALSE(is_adapted(parameter({})));
  EXPECT_FALSE(is_adapted(parameter({7})));
  EXPECT_TRUE(is_adapted(parameter({7, 1})));
  EXPECT_TRUE(is_adapted(parameter({7, 3, 3, 3})));
}

TEST(UpdatePart, NeedsFactors) {
  const Program program = make_program(1, Level::none, {{{0}, {0}, {{4, 4}}}});
  at::Tensor master = at::ones({16});
  std::vector<at::Tensor> state = make_optimizer_state(lars(), 16, master.options());
  const std::vector<at::Tensor> gradients{at::ones({16})};
  const SliceUpdate work{
      .slice = {0, 16}, .gradients = gradients, .master = &master, .state = state, .learning_rate = 1};
  expect_error(Blame::run, {"internal error", "after it has measured"},
               [&] { update_part(lars(), program, program.buckets[0], 0, work, {}); });
}

}  // namespace
}  // namespace trireme
