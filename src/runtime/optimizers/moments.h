// Shared code of optimizers with first and second moments of the gradient.
#pragma once

#include <cmath>

#include "runtime/optimizer.h"

namespace trireme {

inline int two_moments(const OptimizerConfig& /*any*/) { return 2; }

/// Moments begin at 0, so early moments are too small by the factor 1 - beta^step.
inline void correct_moments(const OptimizerConfig& config, int64_t step, kernels::StepRates& rates) {
  rates.correction1 = 1 - std::pow(config.beta1, double(step));
  rates.correction2 = 1 - std::pow(config.beta2, double(step));
}

}  // namespace trireme
