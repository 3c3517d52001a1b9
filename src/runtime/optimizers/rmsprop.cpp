// RMSprop, as torch.optim.RMSprop.
#include <ATen/ATen.h>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void rmsprop_step(const OptimizerConfig& config, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_rmsprop(block, rates, config.centered);
}

void rmsprop_on_device(const OptimizerConfig& config, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor squares = s.state[0], weights = s.weights;
  const at::Tensor d = r.decay != 0 ? s.gradient.add(weights, r.decay) : s.gradient;
  squares.mul_(r.alpha).addcmul_(d, d, 1 - r.alpha);
  at::Tensor variance = squares;
  if (config.centered) {
    at::Tensor mean = s.state[1];
    mean.mul_(r.alpha).add_(d, 1 - r.alpha);
    variance = squares.addcmul(mean, mean, -1).clamp_min_(0);  // rounding may make it negative
  }
  const at::Tensor root = variance.sqrt().add_(r.epsilon);
  if (config.momentum == 0) {
    weights.addcdiv_(d, root, -r.learning_rate);
    return;
  }
  at::Tensor momentum = s.state[config.centered ? 2 : 1];
  momentum.mul_(r.momentum).addcdiv_(d, root);
  weights.sub_(momentum, r.learning_rate);
}

int state_tensors(const OptimizerConfig& config) {
  return 1 + (config.centered ? 1 : 0) + (config.momentum != 0 ? 1 : 0);
}

}  // namespace

constinit const OptimizerKind kRmsprop = {
    .name = "rmsprop",
    .description = "steps divided by the root of the average square (Hinton, 2012), as torch.optim.RMSprop",
    .keys = {"momentum", "alpha", "centered", "epsilon"},
    .state_tensors = state_tensors,
    .float_loops = {rmsprop_step<float>},
    .double_loops = {rmsprop_step<double>},
    .on_device = {rmsprop_on_device},
};

}  // namespace trireme
