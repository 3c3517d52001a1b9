// LARS (You et al., "Large Batch Training of Convolutional Networks", 2017): the rate of each parameter is proportional
// to the norm of its weights.
#include <ATen/ATen.h>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void lars_step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_lars(block, rates);
}

template <class T>
double lars_measure(const kernels::Block<T>& block, const kernels::StepRates& /*any*/) {
  return double(block.scale) * double(block.scale) * kernels::square_sum(block.gradient, block.size);
}

/// The learning rate is part of the momentum.
void lars_on_device(const OptimizerConfig& /*any*/, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor momentum = s.state[0];
  const double rate = r.learning_rate * r.trust;
  const at::Tensor d = r.decay != 0 ? s.gradient.add(s.weights, r.decay) : s.gradient;
  if (!momentum.defined()) {
    at::Tensor(s.weights).sub_(d, rate);
    return;
  }
  momentum.mul_(r.momentum).add_(d, rate);
  at::Tensor(s.weights).sub_(momentum);
}

at::Tensor lars_measured_on_device(const DeviceSlice& s, const kernels::StepRates& /*any*/) {
  return s.gradient.to(at::kDouble).square().sum();
}

double trust(const OptimizerConfig& config, double weights, double step) {
  return config.trust * weights / (step + config.weight_decay * weights);
}

}  // namespace

constinit const OptimizerKind kLars = {
    .name = "lars",
    .description = "SGD with a learning rate per layer, for large batches (You et al., 2017)",
    .keys = {"momentum", "trust"},
    .learning_rate = 1,
    .momentum = 0.9,
    .state_tensors = [](const OptimizerConfig& config) { return config.momentum != 0 ? 1 : 0; },
    .float_loops = {lars_step<float>, lars_measure<float>},
    .double_loops = {lars_step<double>, lars_measure<double>},
    .on_device = {lars_on_device, lars_measured_on_device},
    .trust = trust,
};

}  // namespace trireme
