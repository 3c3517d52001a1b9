// What the layers share: messages about shapes, memory layout, common sharding options.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// User error naming the layer, its kind and what is wrong with its inputs.
[[noreturn]] void fail_shape(const Layer& layer, std::string what, std::string why, std::string next);

void expect_inputs(const Layer& layer, std::span<const Shape> inputs, size_t count);
/// `dims` without the batch dim.
void expect_rank(const Layer& layer, const Shape& input, size_t dims, std::string_view meaning);

/// 4-D tensors in channels_last order, with strides that say so even where one channel or one pixel leaves them
/// ambiguous; others contiguous. No copy when the memory is already in order.
at::Tensor in_layout(const at::Tensor& tensor);

/// An uninitialised tensor in the layout above.
at::Tensor empty_in_layout(at::IntArrayRef sizes, const at::TensorOptions& options);

/// A tensor's shape in a form that LayerCall::saved can hold without keeping the tensor alive.
at::Tensor saved_shape(const at::Tensor& tensor);
Shape restore_shape(const at::Tensor& saved);

/// Every worker computes everything.
ShardingOption replicate_option(int inputs, int parameters = 0, int buffers = 0);

/// "replicate", and one option per dim of the output that `degree` divides, in which inputs, output and their gradients
/// are sharded alike. Dims count from 1 (0 is the batch), up to `last_dim`. Names: "channels", "height", "width" of [c,
/// h, w]; "sequence", "features" of [t, e]; "channels" of [c].
std::vector<ShardingOption> elementwise_options(int inputs, const Shape& output, int degree, int last_dim);

/// Adds rows^T values ([r, a] and [r, b]) to the gradient of a parameter of a * b elements, where that is wanted:
/// straight into the flat gradient buffer where the dtypes are equal.
void add_product_gradient(LayerCall& call, int index, const at::Tensor& rows, const at::Tensor& values);

/// Zero gradients for all parameters that want one: what an empty local batch contributes.
void add_zero_gradients(LayerCall& call, int parameters);

}  // namespace trireme
