// SGD, with momentum or Nesterov's, as torch.optim.SGD.
#include <ATen/ATen.h>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void sgd_step(const OptimizerConfig& config, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_sgd(block, rates, config.nesterov);
}

void sgd_on_device(const OptimizerConfig& config, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor momentum = s.state[0];
  const at::Tensor d = r.decay != 0 ? s.gradient.add(s.weights, r.decay) : s.gradient;
  if (momentum.defined()) momentum.mul_(r.momentum).add_(d);
  const at::Tensor step = !momentum.defined() ? d : config.nesterov ? d.add(momentum, r.momentum) : momentum;
  if (s.rates) at::Tensor(s.weights).addcmul_(step, s.rates->numbers[0], -1);
  else at::Tensor(s.weights).sub_(step, r.learning_rate);
}

}  // namespace

constinit const OptimizerKind kSgd = {
    .name = "sgd",
    .description = "stochastic gradient descent, with momentum or Nesterov's",
    .keys = {"momentum", "nesterov"},
    .learning_rate = 0.05,
    .momentum = 0.9,
    .state_tensors = [](const OptimizerConfig& config) { return config.momentum != 0 ? 1 : 0; },
    .float_loops = {sgd_step<float>},
    .double_loops = {sgd_step<double>},
    .on_device = {.step = sgd_on_device,
                  .recorded = [](const kernels::StepRates& r) { return std::vector<double>{r.learning_rate}; }},
    .skips_zero_gradients = true,
};

}  // namespace trireme
