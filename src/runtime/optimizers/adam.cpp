// Adam, as torch.optim.Adam.
#include "runtime/optimizers/moments.h"

namespace trireme {
namespace {

template <class T>
void step(const OptimizerConfig& /*any*/, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_adam(block, rates, /*decoupled=*/false);
}

}  // namespace

constinit const OptimizerKind kAdam = {
    .name = "adam",
    .summary = "moments of the gradient (Kingma and Ba, 2014), as torch.optim.Adam",
    .keys = {"beta1", "beta2", "epsilon"},
    .learning_rate = 1e-3,
    .state_tensors = two_moments,
    .set_rates = correct_moments,
    .float_loops = {step<float>},
    .double_loops = {step<double>},
};

}  // namespace trireme
