// The registry of optimizers. Everything about a kind is in its own file. To add a kind, add a line to
// optimizer_kind.cpp. docs/optimizers.md states the formulas and their sources.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/kernels/update.h"

namespace trireme {

struct OptimizerConfig;

/// Elements that are processed at a time. Small enough that the gradient sum stays in the first-level cache between
/// summing and updating.
constexpr int64_t kOptimizerBlock = 2048;

/// The loops of a kind over blocks of T.
template <class T>
struct OptimizerLoops {
  void (*step)(const OptimizerConfig& config, const kernels::Block<T>& block,
               const kernels::StepRates& rates) = nullptr;
  /// Layer-wise kinds only: returns the block's SquareSums::step.
  double (*measure)(const kernels::Block<T>& block, const kernels::StepRates& rates) = nullptr;
};

constexpr int kMostRecorded = 3;

/// The numbers of an update that differ from step to step, as 0-dim tensors on the device. A step that is recorded once
/// and replayed reads them from there.
struct RecordedRates {
  std::array<at::Tensor, kMostRecorded> numbers;
};

/// A slice on a device whose memory the host cannot read, as flat tensors of one dtype. `gradient` is the sum over all
/// contributors, already scaled. It is read only. `state` is undefined where the optimizer has fewer tensors.
struct DeviceSlice {
  at::Tensor weights, gradient;
  std::array<at::Tensor, kernels::kMostStates> state = {};
  const RecordedRates* rates = nullptr;  ///< set: take the numbers of DeviceOptimizer::recorded from there
};

/// The same arithmetic as OptimizerLoops, by libtorch's operators.
struct DeviceOptimizer {
  void (*step)(const OptimizerConfig& config, const DeviceSlice& slice, const kernels::StepRates& rates) = nullptr;
  /// Layer-wise kinds only: returns the slice's SquareSums::step, as a float64 of no dimensions.
  at::Tensor (*measure)(const DeviceSlice& slice, const kernels::StepRates& rates) = nullptr;
  /// Returns the numbers that differ from step to step. Null: `step` does not read them from RecordedRates.
  std::vector<double> (*recorded)(const kernels::StepRates& rates) = nullptr;
};

struct OptimizerKind {
  const char* name;
  const char* description;               ///< one line
  std::array<const char*, 5> keys = {};  ///< keys of the [optimizer] table that belong to this kind, then null
  double learning_rate = 0.01;           ///< default if the experiment sets none; so are the next two
  double momentum = 0, epsilon = 1e-8;
  int (*state_tensors)(const OptimizerConfig& config) = nullptr;  ///< per element, not counting averaged weights
  /// Value of the first state tensor before the first update. Null: 0.
  double (*first_state)(const OptimizerConfig& config) = nullptr;
  /// Sets the rates that depend on the step, counted from 1. Null: none does.
  void (*set_rates)(const OptimizerConfig& config, int64_t step, kernels::StepRates& rates) = nullptr;
  OptimizerLoops<float> float_loops;
  OptimizerLoops<double> double_loops;
  DeviceOptimizer on_device;
  /// Returns the factor of a parameter's step from the norms of its weights and of its SquareSums::step. Null: the kind
  /// is not layer-wise.
  double (*trust)(const OptimizerConfig& config, double weights, double step) = nullptr;
  /// `measure` adds the gradient to the state; the update then does not read the gradient.
  bool measure_takes_gradient = false;
  bool skips_zero_gradients = false;  ///< without momentum and decay, a weight with zero gradient does not change

  template <class T>
  const OptimizerLoops<T>& loops() const {
    if constexpr (std::is_same_v<T, double>) return double_loops;
    else return float_loops;
  }
};

/// In the order of docs/optimizers.md.
const std::vector<const OptimizerKind*>& optimizer_kinds();
std::vector<std::string> optimizer_names();
/// Errors (user): names the accepted words.
const OptimizerKind* parse_optimizer(std::string_view text, std::string_view key);

// One file each.
extern const OptimizerKind kSgd, kAdam, kAdamW, kAdagrad, kRmsprop, kLars, kLamb;

}  // namespace trireme
