// Adagrad, as torch.optim.Adagrad.
#include <ATen/ATen.h>

#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void adagrad_step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_adagrad(block, rates);
}

void decay_rate(const OptimizerConfig& config, int64_t step, kernels::StepRates& rates) {
  rates.learning_rate = rates.learning_rate / (1 + double(step - 1) * config.rate_decay);
}

void adagrad_on_device(const OptimizerConfig& /*any*/, const DeviceSlice& s, const kernels::StepRates& r) {
  at::Tensor sum = s.state[0];
  const at::Tensor d = r.decay != 0 ? s.gradient.add(s.weights, r.decay) : s.gradient;
  sum.addcmul_(d, d);
  at::Tensor(s.weights).addcdiv_(d, sum.sqrt().add_(r.epsilon), -r.learning_rate);
}

}  // namespace

constinit const OptimizerKind kAdagrad = {
    .name = "adagrad",
    .description = "steps divided by the root of the summed squares (Duchi et al., 2011), as torch.optim.Adagrad",
    .keys = {"rate_decay", "initial_accumulator", "epsilon"},
    .epsilon = 1e-10,
    .state_tensors = [](const OptimizerConfig&) { return 1; },
    .first_state = [](const OptimizerConfig& config) { return config.initial_accumulator; },
    .set_rates = decay_rate,
    .float_loops = {adagrad_step<float>},
    .double_loops = {adagrad_step<double>},
    .on_device = {adagrad_on_device},
};

}  // namespace trireme
