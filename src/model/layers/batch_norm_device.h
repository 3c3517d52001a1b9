// Batch norm on tensors that the host cannot read: libtorch's operators in place of the kernels of model/kernels. Same
// mathematics and the same messages; rounded differently.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/batch_norm.h"

namespace trireme {

/// BatchNorm::forward and backward. Forward saves the input, mean and inverse deviation per channel, and with a ReLU
/// the output.
at::Tensor batch_norm_on_device(LayerCall& call, const BatchNormOptions& options, std::span<const at::Tensor> inputs);
std::vector<at::Tensor> batch_norm_backward_on_device(LayerCall& call, const BatchNormOptions& options,
                                                      const at::Tensor& output_gradient);

// -- used by both forms

/// True if the statistics are those of the micro-batch over several data shards.
bool has_global_statistics(LayerCall& call);
/// Turns sums over this worker's values into sums over all values of the statistics.
void add_over_statistics(LayerCall& call, at::Tensor& sums);
/// Returns the number of these values per channel.
double values_per_channel(LayerCall& call, const at::Tensor& input);

}  // namespace trireme
