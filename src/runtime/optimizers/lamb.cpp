// LAMB (You et al., "Large Batch Optimization for Deep Learning", 2019): Adam's direction; each parameter's step is
// proportional to the norm of its weights.
#include "runtime/optimizers/moments.h"

namespace trireme {
namespace {

template <class T>
void lamb_step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  alignas(64) T direction[kOptimizerBlock];
  kernels::lamb_direction(block, rates, direction);
  kernels::step_along(block, rates, direction);
}

template <class T>
double lamb_measure(const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::move_moments(block, rates);
  alignas(64) T direction[kOptimizerBlock];
  kernels::lamb_direction(block, rates, direction);
  return kernels::square_sum(direction, block.size);
}

at::Tensor lamb_direction_on_device(const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor direction = s.state[0].div(root_on_device(s, r)).mul_(1 / r.correction1);
  return r.decay != 0 ? direction.add_(s.weights, r.decay) : direction;
}

void lamb_on_device(const OptimizerConfig& /*any*/, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor(s.weights).sub_(lamb_direction_on_device(s, r), r.learning_rate * r.trust);
}

at::Tensor lamb_measured_on_device(const DeviceSlice& s, const kernels::StepRates& r) {
  move_moments_on_device(s, s.gradient, r);
  return lamb_direction_on_device(s, r).to(at::kDouble).square().sum();
}

}  // namespace

constinit const OptimizerKind kLamb = {
    .name = "lamb",
    .description = "Adam with a learning rate per layer, for large batches (You et al., 2019)",
    .keys = {"beta1", "beta2", "epsilon"},
    .learning_rate = 1e-3,
    .epsilon = 1e-6,
    .state_tensors = two_moments,
    .set_rates = correct_moments,
    .float_loops = {lamb_step<float>, lamb_measure<float>},
    .double_loops = {lamb_step<double>, lamb_measure<double>},
    .on_device = {lamb_on_device, lamb_measured_on_device},
    .trust = [](const OptimizerConfig&, double weights, double step) { return weights / step; },
    .measure_takes_gradient = true,
};

}  // namespace trireme
