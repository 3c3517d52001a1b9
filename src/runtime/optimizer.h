// Optimizers as one pass over a slice of a flat bucket: sum the workers' gradients, update the state, write the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/placement.h"

namespace trireme {

struct OptimizerConfig {
  enum class Kind { sgd, adam, adamw };
  Kind kind = Kind::sgd;
  double learning_rate = 0.01;
  double momentum = 0;      ///< sgd
  bool nesterov = false;    ///< sgd
  double weight_decay = 0;  ///< sgd, adam: added to the gradient (L2); adamw: decoupled
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// Errors (user): names the accepted words.
OptimizerConfig::Kind parse_optimizer(std::string_view text, std::string_view key);

/// State tensors per element: SGD 0 or 1 (momentum), Adam 2 (moments).
int optimizer_state_count(const OptimizerConfig& config);

/// sum[i] = gradients[0][i] + gradients[1][i] + ... over `slice` of flat tensors, in order. Gradients may be bfloat16 where `sum`
/// is float. `sum` has slice.size() elements.
void sum_gradients(std::span<const at::Tensor> gradients, Range slice, at::Tensor& sum);

/// What one update works on. All tensors flat; `master` float or double.
struct SliceUpdate {
  Range slice;                            ///< of the bucket
  std::span<const at::Tensor> gradients;  ///< whole buckets, summed in order (one already reduced is fine)
  int64_t gradient_offset = 0;            ///< index in `gradients` of the slice's first element
  double gradient_scale = 1;              ///< from clipping
  at::Tensor* master = nullptr;           ///< whole bucket
  at::Tensor* compute = nullptr;          ///< whole bucket in bfloat16, or null: written from the new master values
  std::span<at::Tensor> state;            ///< slice.size() elements each
  double learning_rate = 0;               ///< of this step
  int64_t step = 1;                       ///< 1-based, for Adam's bias correction
};

/// The formulas are PyTorch's (torch.optim.SGD, Adam, AdamW). Sums and state in the master's type.
void update_slice(const OptimizerConfig& config, const SliceUpdate& update);

}  // namespace trireme
