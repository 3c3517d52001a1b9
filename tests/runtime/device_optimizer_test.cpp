// The optimizers' forms for GPUs, by libtorch's operators, against their loops on the CPU. Operators compute on the CPU
// too, so no GPU is needed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

constexpr int64_t kElements = 37;
constexpr int kUpdates = 4;
constexpr double kTolerance = 1e-12, kTrust = 0.7;

std::vector<OptimizerConfig> configurations() {
  return {
      {.kind = &kSgd},
      {.kind = &kSgd, .momentum = 0.9, .weight_decay = 0.01},
      {.kind = &kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
      {.kind = &kAdam, .weight_decay = 0.01},
      {.kind = &kAdamW, .weight_decay = 0.01},
      {.kind = &kAdagrad, .weight_decay = 0.01, .rate_decay = 0.1, .initial_accumulator = 0.2},
      {.kind = &kRmsprop, .weight_decay = 0.01},
      {.kind = &kRmsprop, .momentum = 0.9, .centered = true},
      {.kind = &kLars, .momentum = 0.9, .weight_decay = 0.01},
      {.kind = &kLars},
      {.kind = &kLamb, .weight_decay = 0.01, .epsilon = 1e-6},
  };
}

/// Weights and state of one form.
struct Side {
  at::Tensor weights;
  std::vector<at::Tensor> state;
};

Side begin(const OptimizerConfig& config, const at::Tensor& weights) {
  return {weights.clone(), make_optimizer_state(config, kElements, weights.options())};
}

SliceUpdate update_of(Side& side, const at::Tensor& gradient, int64_t step) {
  SliceUpdate update;
  update.slice = {0, kElements};
  update.gradients = {&gradient, 1};
  update.master = &side.weights;
  update.state = side.state;
  update.learning_rate = 0.05 / double(step);
  update.step = step;
  update.trust = kTrust;
  return update;
}

DeviceSlice slice_of(Side& side, const at::Tensor& gradient, const RecordedRates* rates) {
  DeviceSlice slice;
  slice.weights = side.weights;
  slice.gradient = gradient;
  for (size_t k = 0; k < side.state.size(); ++k) slice.state[k] = side.state[k];
  slice.rates = rates;
  return slice;
}

void expect_equal(const Side& actual, const Side& expected) {
  EXPECT_TRUE(at::allclose(actual.weights, expected.weights, kTolerance, kTolerance));
  for (size_t k = 0; k < expected.state.size(); ++k)
    EXPECT_TRUE(at::allclose(actual.state[k], expected.state[k], kTolerance, kTolerance)) << "state " << k;
}

/// `recorded`: the numbers that change with the step come from tensors, as in a step that is replayed.
void expect_same_updates(const OptimizerConfig& config, bool recorded) {
  at::manual_seed(3);
  const at::Tensor weights = at::randn({kElements}, at::kDouble);
  Side loops = begin(config, weights), operators = begin(config, weights);
  const at::Tensor memory = at::zeros({kMostRecorded}, at::kDouble);
  RecordedRates numbers;
  for (int i = 0; i < kMostRecorded; ++i) numbers.numbers[size_t(i)] = memory.select(0, i);
  for (int64_t step = 1; step <= kUpdates; ++step) {
    const at::Tensor gradient = at::randn({kElements}, at::kDouble);
    SliceUpdate update = update_of(loops, gradient, step);
    const kernels::StepRates rates = rates_of(config, update);
    if (recorded) {
      const std::vector<double> now = recorded_numbers(config, update.learning_rate, step);
      for (size_t i = 0; i < now.size(); ++i) at::Tensor(numbers.numbers[i]).fill_(now[i]);
    }
    const DeviceSlice slice = slice_of(operators, gradient, recorded ? &numbers : nullptr);
    if (config.is_layerwise()) {
      const SquareSums sums = measure_slice(config, update);
      const double measured = config.kind->on_device.measure(slice, rates).item<double>();
      EXPECT_NEAR(measured, sums.step, kTolerance * sums.step);
    }
    update_slice(config, update);
    config.kind->on_device.step(config, slice, rates);
    expect_equal(operators, loops);
  }
}

TEST(DeviceOptimizers, AreTheLoops) {
  for (const OptimizerConfig& config : configurations()) {
    SCOPED_TRACE(config.kind->name);
    expect_same_updates(config, false);
  }
}

TEST(DeviceOptimizers, TakeRecordedNumbersFromTensors) {
  int recorded = 0;
  for (const OptimizerConfig& config : configurations()) {
    if (!can_record(config)) continue;
    SCOPED_TRACE(config.kind->name);
    expect_same_updates(config, true);
    ++recorded;
  }
  EXPECT_EQ(recorded, 5) << "SGD, Adam and AdamW";
}

TEST(DeviceOptimizers, EveryKindHasOne) {
  for (const OptimizerKind* kind : optimizer_kinds()) {
    EXPECT_NE(kind->on_device.step, nullptr) << kind->name;
    EXPECT_EQ(kind->on_device.measure != nullptr, kind->trust != nullptr) << kind->name;
  }
}

}  // namespace
}  // namespace trireme
