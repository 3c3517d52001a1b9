// LARS (You et al., "Large Batch Training of Convolutional Networks", 2017): the rate of each parameter is proportional
// to the norm of its weights.
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
    .trust = trust,
};

}  // namespace trireme
