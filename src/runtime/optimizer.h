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

struct OptimizerConfig {
  const OptimizerKind* kind = &kSgd;
  double learning_rate = 0.01;
  double momentum = 0;    ///< sgd, rmsprop, lars
  bool nesterov = false;  ///< sgd
  double weight_decay =
      0;  ///< added to the gradient (L2); adamw: taken from the weights; lamb: part of what is scaled by layer
  double beta1 = 0.9, beta2 = 0.999;  ///< adam, adamw, lamb: shares of the moments that stay
  double epsilon = 1e-8;              ///< all that divide by a root
  double alpha = 0.99;                ///< rmsprop: share of the averages that stays
  bool centered = false;              ///< rmsprop: divides by the deviation from the average gradient
  double rate_decay = 0;              ///< adagrad: step t goes at rate / (1 + (t - 1) rate_decay)
  double initial_accumulator = 0;     ///< adagrad: what the sum of squares begins with
  double trust = 1e-3;                ///< lars: the paper's eta
  double ema = 0;                     ///< share of the averaged weights that stays; 0: none are kept

  /// Whether steps are scaled parameter by parameter, by norms of the full tensors.
  bool is_layerwise() const { return kind->trust != nullptr; }
};

/// Whether a weight whose gradient is zero stays as it is, and its step leaves no trace: SGD without momentum, decay
/// and averages.
bool skips_zero_gradients(const OptimizerConfig& config);

/// State tensors per element: the kind's, and one more, the last, for averaged weights.
int optimizer_state_count(const OptimizerConfig& config);
/// As many tensors as that, as they are before the first update.
std::vector<at::Tensor> make_optimizer_state(const OptimizerConfig& config, int64_t elements,
                                             const at::TensorOptions& options);

/// sum[i] = gradients[0][i] + gradients[1][i] + ... over `slice` of flat tensors, in order. Gradients may be bfloat16
/// where `sum` is float. `sum` has slice.size() elements.
void sum_gradients(std::span<const at::Tensor> gradients, Range slice, at::Tensor& sum);

/// What one update works on. All tensors flat; `master` float or double.
struct SliceUpdate {
  Range slice;                            ///< of `master` and `compute`
  std::span<const at::Tensor> gradients;  ///< summed in order (one already reduced is fine)
  int64_t gradient_offset = 0;            ///< index in `gradients` of the slice's first element
  double gradient_scale = 1;              ///< from clipping
  at::Tensor* master = nullptr;
  at::Tensor* compute = nullptr;  ///< like `master`, in bfloat16, or null: written from the new master values
  std::span<at::Tensor> state;    ///< from make_optimizer_state
  int64_t state_offset = 0;       ///< index in `state` of the slice's first element
  double learning_rate = 0;       ///< of this step
  int64_t step = 1;               ///< 1-based, for Adam's bias correction
  double trust = 1;               ///< layer-wise kinds: trust_ratio
  bool decays = true;             ///< whether weight_decay applies
};

/// PyTorch's formulas where it has the kind, else the papers'. Sums and state in
/// the master's type. Averaged weights take the new ones in with the share (1 - ema) / (1 - ema^step), so that all
/// shares add up to 1 at any step.
void update_slice(const OptimizerConfig& config, const SliceUpdate& update);

/// Of a flat float or double tensor, in double.
double sum_of_squares(const at::Tensor& values);

/// Swaps the values of two flat tensors of one dtype and size.
void exchange_values(at::Tensor& a, at::Tensor& b);

/// Sums of squares over a part of a parameter.
struct SquareSums {
  double weights = 0;
  double step = 0;  ///< of the scaled gradient, or of what would be subtracted at rate and trust 1, as the kind has it
};

/// What a layer-wise kind must know of a slice before update_slice. Where the kind's
/// measure_takes_gradient: also takes the gradient into the state, which update_slice then leaves as it is: exactly
/// once per step.
SquareSums measure_slice(const OptimizerConfig& config, const SliceUpdate& update);

/// The factor of a parameter's step. `sums`: over the full parameter.
double trust_ratio(const OptimizerConfig& config, const SquareSums& sums);

}  // namespace trireme
