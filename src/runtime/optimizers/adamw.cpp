// AdamW: Adam whose decay is taken from the weights, as torch.optim.AdamW.
#include "runtime/optimizers/moments.h"

namespace trireme {
namespace {

template <class T>
void step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_adam(block, rates, /*decoupled=*/true);
}

}  // namespace

constinit const OptimizerKind kAdamW = {
    .name = "adamw",
    .summary = "Adam with weight decay of its own (Loshchilov and Hutter, 2017), as torch.optim.AdamW",
    .keys = {"beta1", "beta2", "epsilon"},
    .learning_rate = 1e-3,
    .state_tensors = two_moments,
    .set_rates = correct_moments,
    .float_loops = {step<float>},
    .double_loops = {step<double>},
};

}  // namespace trireme
