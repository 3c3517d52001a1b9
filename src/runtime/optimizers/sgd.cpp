// SGD, with momentum or Nesterov's, as torch.optim.SGD.
#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void sgd_step(const OptimizerConfig& config, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_sgd(block, rates, config.nesterov);
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
    .skips_zero_gradients = true,
};

}  // namespace trireme
