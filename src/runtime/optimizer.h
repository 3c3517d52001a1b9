// Optimizers as one pass over a slice of a flat bucket: sum the workers' gradients, update the state, write the
// weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/optimizers/optimizer_kind.h"
#include "trireme/placement.h"

namespace trireme {

/// Settings of an optimizer.
struct OptimizerConfig {
  const OptimizerKind* kind = &kSgd;
  double learning_rate = 0.01;
  double momentum = 0;    ///< sgd, rmsprop, lars
  bool nesterov = false;  ///< sgd
  /// Added to the gradient (L2); adamw: applied to the weights; lamb: part of the direction that is scaled by layer.
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  ///< adam, adamw, lamb: decay of the moments (share of the old value)
  double epsilon = 1e-8;              ///< all kinds that divide by a root
  double alpha = 0.99;                ///< rmsprop: share of the old value in the averages
  bool centered = false;              ///< rmsprop: divides by the deviation from the average gradient
  double rate_decay = 0;              ///< adagrad: the rate of step t is rate / (1 + (t - 1) rate_decay)
  double initial_accumulator = 0;     ///< adagrad: initial value of the sum of squares
  double trust = 1e-3;                ///< lars: the paper's eta
  double ema = 0;                     ///< share of the old value in the averaged weights; 0: no averages are stored

  /// True if steps are scaled parameter by parameter, by norms of the full tensors.
  bool is_layerwise() const { return kind->trust != nullptr; }
};

/// True if a weight with zero gradient does not change and its update leaves no trace in the state: SGD without
/// momentum, decay and averages.
bool skips_zero_gradients(const OptimizerConfig& config);

/// Returns the number of state tensors per element: the kind's, and one more (the last) for averaged weights.
int optimizer_state_count(const OptimizerConfig& config);
/// Returns these state tensors, with their values before the first update.
std::vector<at::Tensor> make_optimizer_state(const OptimizerConfig& config, int64_t elements,
                                             const at::TensorOptions& options);
/// Resets the state tensors to these values. No tensors: nothing happens.
void reset_optimizer_state(const OptimizerConfig& config, std::span<at::Tensor> state);

/// sum[i] = gradients[0][i] + gradients[1][i] + ... over `slice` of flat tensors, in this order. Gradients may be
/// bfloat16 if `sum` is float. `sum` has slice.size() elements.
void sum_gradients(std::span<const at::Tensor> gradients, Range slice, at::Tensor& sum);

/// Arguments of one update. All tensors are flat; `master` is float or double.
struct SliceUpdate {
  Range slice;                            ///< of `master` and `compute`
  std::span<const at::Tensor> gradients;  ///< summed in this order; a single tensor that is already reduced is allowed
  int64_t gradient_offset = 0;            ///< index in `gradients` of the slice's first element
  double gradient_scale = 1;              ///< from clipping
  at::Tensor* master = nullptr;
  at::Tensor* compute = nullptr;            ///< bfloat16 copy of `master`, written from the new master values; or null
  std::span<at::Tensor> state;              ///< from make_optimizer_state
  int64_t state_offset = 0;                 ///< index in `state` of the slice's first element
  double learning_rate = 0;                 ///< of this step
  int64_t step = 1;                         ///< 1-based, for Adam's bias correction
  double trust = 1;                         ///< layer-wise kinds: trust_ratio
  bool decays = true;                       ///< whether weight_decay applies
  const RecordedRates* recorded = nullptr;  ///< on a device: read the rates from there; null: use those above
};

/// Updates one slice. Formulas are PyTorch's if it has the optimizer, otherwise the papers'. Sums and state are in the
/// master's dtype. The new weights enter the averaged weights with the share (1 - ema) / (1 - ema^step), so that all
/// shares add up to 1 at every step.
void update_slice(const OptimizerConfig& config, const SliceUpdate& update);

/// Returns the constants of the update's loops.
kernels::StepRates rates_of(const OptimizerConfig& config, const SliceUpdate& update);

/// True if an update on a device can take from RecordedRates what differs from step to step.
bool can_record(const OptimizerConfig& config);
/// Returns the numbers for RecordedRates of update `step`, which counts from 1.
std::vector<double> recorded_numbers(const OptimizerConfig& config, double learning_rate, int64_t step);

/// Returns the sum of squares of a flat float or double tensor, in double.
double sum_of_squares(const at::Tensor& values);

/// Swaps the values of two flat tensors of one dtype and size.
void exchange_values(at::Tensor& a, at::Tensor& b);

/// Sums of squares over a part of a parameter.
struct SquareSums {
  double weights = 0;
  double step = 0;  ///< of the scaled gradient, or of what would be subtracted at rate and trust 1; the kind decides
};

/// Returns the sums that a layer-wise kind needs of a slice before update_slice. If the kind's measure_takes_gradient
/// is set, it also adds the gradient to the state, and update_slice then leaves the state as it is. Call it exactly
/// once per step.
SquareSums measure_slice(const OptimizerConfig& config, const SliceUpdate& update);

/// Returns the factor of a parameter's step. `sums` are over the full parameter.
double trust_ratio(const OptimizerConfig& config, const SquareSums& sums);

}  // namespace trireme
