// RMSprop, as torch.optim.RMSprop.
#include "runtime/optimizer.h"

namespace trireme {
namespace {

template <class T>
void rmsprop_step(const OptimizerConfig& config, const kernels::Block<T>& block, const kernels::StepRates& rates) {
  kernels::step_rmsprop(block, rates, config.centered);
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
};

}  // namespace trireme
