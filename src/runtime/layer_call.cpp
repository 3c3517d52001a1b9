#include "runtime/layer_call.h"

#include <ATen/ATen.h>

namespace trireme {

void RuntimeLayerCall::add_gradient(int index, const at::Tensor& gradient) {
  bool& written = *binding_->gradient_written[size_t(index)];
  if (written) binding_->gradients[size_t(index)].add_(gradient);
  else binding_->gradients[size_t(index)].copy_(gradient);
  written = true;
}

LayerCall::GradientTarget RuntimeLayerCall::gradient_target(int index) {
  bool& written = *binding_->gradient_written[size_t(index)];
  GradientTarget target{binding_->gradients[size_t(index)], written};
  written = true;
  return target;
}

void RuntimeLayerCall::report(std::string_view metric, double value) {
  // every worker of the tensor axis sees the same samples: the first one counts
  if (binding_->tensor_index == 0) (*metrics_)[std::string(metric)] += value;
}

}  // namespace trireme
