// Adam, as torch.optim.Adam, and AdamW, which applies its decay to the weights, as torch.optim.AdamW.
#include "runtime/optimizers/moments.h"

namespace trireme {
namespace {

template <class T, bool decoupled>
void adam_step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_adam(block, rates, decoupled);
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
};

}  // namespace trireme
