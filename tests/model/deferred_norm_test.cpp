// Running statistics of batch norm with micro-batches: updated once per mini-batch ("deferred"), not changed by
// recomputing.
#include <gtest/gtest.h>

#include <random>

#include "layer_cases.h"
#include "trireme/layers/batch_norm.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kChannels = 5;

/// A layer's buffers and scratch memory, which live longer than its calls.
struct Kept {
  std::vector<at::Tensor> buffers{at::zeros({kChannels}, at::kDouble), at::ones({kChannels}, at::kDouble)};
  at::Tensor scratch;
};

struct Setting {
  BatchNormScope scope = BatchNormScope::deferred;
  int micro_batch = 0, micro_batches = 1;
  bool recomputing = false;
};

at::Tensor forward(const BatchNorm& norm, Kept& kept, const at::Tensor& input, const Setting& s) {
  TestCall call;
  call.parameters = {random_tensor({kChannels}, 1), random_tensor({kChannels}, 2)};
  call.buffers = kept.buffers;
  call.kept = kept.scratch;
  call.batch_norm = s.scope;
  call.micro_batch = s.micro_batch;
  call.micro_batches = s.micro_batches;
  call.micro_batch_samples = input.size(0);
  call.recomputing = s.recomputing;
  at::Tensor output = norm.forward(call, std::vector{input});
  kept.scratch = call.kept;
  return output;
}

void expect_near(const Kept& got, const Kept& expected) {
  for (size_t b : {0, 1})
    EXPECT_LT((got.buffers[b] - expected.buffers[b]).abs().max().item<double>(), 1e-12) << "buffer " << b;
}

TEST(DeferredNorm, TakesInAMiniBatchAtOnce) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const BatchNorm norm("norm", kChannels, {.momentum = 0.3});
  for (int micro_batches : {1, 2, 3, 7}) {
    SCOPED_TRACE(micro_batches);
    Kept deferred, whole, local;
    for (uint64_t step = 0; step < 3; ++step) {
      // Unequal sizes; micro-batch 1 may be empty.
      std::vector<at::Tensor> parts;
      for (int k = 0; k < micro_batches; ++k) {
        const int64_t samples = std::uniform_int_distribution<int64_t>(k == 1 ? 0 : 1, 4)(random);
        // The mean is far from 0 and differs between micro-batches; an update from sums of squares would lose
        // precision.
        parts.push_back(random_tensor({samples, kChannels, 3, 2}, seed + 10 * step + uint64_t(k)) * 0.5 + 3 * k);
      }
      const at::Tensor batch = channels_last(at::cat(parts, 0));
      forward(norm, whole, batch, {.scope = BatchNormScope::local});
      for (int k = 0; k < micro_batches; ++k) {
        const Kept before{{deferred.buffers[0].clone(), deferred.buffers[1].clone()}, {}};
        const at::Tensor output =
            forward(norm, deferred, parts[size_t(k)], {.micro_batch = k, .micro_batches = micro_batches});
        const at::Tensor expected = forward(norm, local, parts[size_t(k)], {.scope = BatchNormScope::local});
        EXPECT_TRUE(at::equal(output, expected)) << "each micro-batch is normalised on its own";
        if (k + 1 < micro_batches) {
          EXPECT_TRUE(at::equal(deferred.buffers[0], before.buffers[0]) &&
                      at::equal(deferred.buffers[1], before.buffers[1]));
        }
      }
      expect_near(deferred, whole);
      EXPECT_FALSE(deferred.scratch.defined()) << "nothing is kept between steps";
    }
    // One step from the initial values by PyTorch's rule.
    Kept once;
    const at::Tensor batch = random_tensor({4, kChannels, 3, 2}, seed);
    for (int k = 0; k < 2; ++k)
      forward(norm, once, channels_last(batch.narrow(0, 2 * k, 2)), {.micro_batch = k, .micro_batches = 2});
    at::Tensor mean = at::zeros({kChannels}, at::kDouble), variance = at::ones({kChannels}, at::kDouble);
    at::native_batch_norm(batch, {}, {}, mean, variance, true, 0.3, 1e-5);
    expect_near(once, {{mean, variance}, {}});
  }
}

/// An interrupted step leaves its sums behind; the next step must not use them. A step of empty micro-batches changes
/// nothing.
TEST(DeferredNorm, StartsAfreshWithEachStep) {
  const BatchNorm norm("norm", kChannels);
  const at::Tensor lost = random_tensor({2, kChannels, 3, 2}, 1), first = random_tensor({2, kChannels, 3, 2}, 2),
                   second = random_tensor({3, kChannels, 3, 2}, 3), none = first.narrow(0, 0, 0);
  Kept broken, whole;
  forward(norm, broken, lost, {.micro_batch = 0, .micro_batches = 3});
  forward(norm, broken, first, {.micro_batch = 0, .micro_batches = 2});
  forward(norm, broken, second, {.micro_batch = 1, .micro_batches = 2});
  forward(norm, whole, channels_last(at::cat({first, second}, 0)), {.scope = BatchNormScope::local});
  expect_near(broken, whole);
  const std::vector<at::Tensor> before{broken.buffers[0].clone(), broken.buffers[1].clone()};
  for (int k : {0, 1}) forward(norm, broken, none, {.micro_batch = k, .micro_batches = 2});
  for (size_t b : {0, 1}) EXPECT_TRUE(at::equal(broken.buffers[b], before[b]));
}

TEST(DeferredNorm, RecomputingLeavesStatisticsAlone) {
  for (BatchNormScope scope : {BatchNormScope::local, BatchNormScope::global, BatchNormScope::deferred}) {
    const BatchNorm norm("norm", kChannels, {.relu = true});
    Kept kept, plain;
    std::vector<at::Tensor> inputs, outputs;
    for (int k = 0; k < 3; ++k) {
      inputs.push_back(random_tensor({2, kChannels, 3, 2}, uint64_t(k)));
      outputs.push_back(forward(norm, kept, inputs.back(), {scope, k, 3}));
      forward(norm, plain, inputs.back(), {scope, k, 3});
      // 1F1B recomputes an earlier micro-batch before the forwards of later ones.
      const size_t again = size_t(k / 2);
      EXPECT_TRUE(at::equal(forward(norm, kept, inputs[again], {scope, int(again), 3, true}), outputs[again]));
    }
    for (int k = 2; k >= 0; --k)
      EXPECT_TRUE(at::equal(forward(norm, kept, inputs[size_t(k)], {scope, k, 3, true}), outputs[size_t(k)]));
    for (size_t b : {0, 1}) EXPECT_TRUE(at::equal(kept.buffers[b], plain.buffers[b]));
  }
}

}  // namespace
}  // namespace trireme::test_support
