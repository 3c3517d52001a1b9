// Shared code of optimizers with first and second moments of the gradient.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "runtime/optimizer.h"

namespace trireme {

inline int two_moments(const OptimizerConfig& /*any*/) { return 2; }

/// Moments begin at 0, so early moments are too small by the factor 1 - beta^step.
inline void correct_moments(const OptimizerConfig& config, int64_t step, kernels::StepRates& rates) {
  rates.correction1 = 1 - std::pow(config.beta1, double(step));
  rates.correction2 = 1 - std::pow(config.beta2, double(step));
}

inline void move_moments_on_device(const DeviceSlice& s, const at::Tensor& d, const kernels::StepRates& r) {
  at::Tensor(s.state[0]).mul_(r.beta1).add_(d, 1 - r.beta1);
  at::Tensor(s.state[1]).mul_(r.beta2).addcmul_(d, d, 1 - r.beta2);
}

/// Returns the denominator of Adam's direction.
inline at::Tensor root_on_device(const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor root = s.state[1].sqrt();
  if (s.rates) root.mul_(s.rates->numbers[1]);
  else root.mul_(1 / std::sqrt(r.correction2));
  return root.add_(r.epsilon);
}

}  // namespace trireme
