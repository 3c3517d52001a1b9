// Adam, as torch.optim.Adam, and AdamW, which applies its decay to the weights, as torch.optim.AdamW.
#include "runtime/optimizers/moments.h"

namespace trireme {
namespace {

template <class T, bool decoupled>
void adam_step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_adam(block, rates, decoupled);
}

template <bool decoupled>
void adam_on_device(const OptimizerConfig& /*any*/, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor weights = s.weights;
  const bool adds_decay = !decoupled && r.decay != 0;
  move_moments_on_device(s, adds_decay ? s.gradient.add(weights, r.decay) : s.gradient, r);
  const at::Tensor root = root_on_device(s, r);
  if (s.rates) {
    if (decoupled && r.decay != 0) weights.mul_(s.rates->numbers[2]);
    weights.addcmul_(s.state[0].div(root), s.rates->numbers[0], -1);
    return;
  }
  if (decoupled && r.decay != 0) weights.mul_(1 - r.learning_rate * r.decay);
  weights.addcdiv_(s.state[0], root, -r.learning_rate / r.correction1);
}

std::vector<double> adam_numbers(const kernels::StepRates& r) {
  return {r.learning_rate / r.correction1, 1 / std::sqrt(r.correction2), 1 - r.learning_rate * r.decay};
}

}  // namespace

constinit const OptimizerKind kAdam = {
    .name = "adam",
    .description = "moments of the gradient (Kingma and Ba, 2014), as torch.optim.Adam",
    .keys = {"beta1", "beta2", "epsilon"},
    .learning_rate = 1e-3,
    .state_tensors = two_moments,
    .set_rates = correct_moments,
    .float_loops = {adam_step<float, false>},
    .double_loops = {adam_step<double, false>},
    .on_device = {.step = adam_on_device<false>, .recorded = adam_numbers},
};

constinit const OptimizerKind kAdamW = {
    .name = "adamw",
    .description = "Adam with decoupled weight decay (Loshchilov and Hutter, 2017), as torch.optim.AdamW",
    .keys = {"beta1", "beta2", "epsilon"},
    .learning_rate = 1e-3,
    .state_tensors = two_moments,
    .set_rates = correct_moments,
    .float_loops = {adam_step<float, true>},
    .double_loops = {adam_step<double, true>},
    .on_device = {.step = adam_on_device<true>, .recorded = adam_numbers},
};

}  // namespace trireme
