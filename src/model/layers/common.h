// Helpers that layers share: messages about shapes, memory layout, common sharding options.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Throws a user error that names the layer, its kind and what is wrong with its inputs.
[[noreturn]] void fail_shape(const Layer& layer, std::string what, std::string why, std::string next);

void expect_inputs(const Layer& layer, std::span<const Shape> inputs, size_t count);
/// `dims`: number of dims without the batch dim.
void expect_rank(const Layer& layer, const Shape& input, size_t dims, std::string_view meaning);
/// `width`: the features of a layer that treats each position on its own.
void expect_last_dim(const Layer& layer, const Shape& input, int64_t width);

/// Returns 4-D tensors in channels_last order, with channels_last strides even if one channel or one pixel makes them
/// ambiguous; other tensors contiguous. No copy if the memory is already in order.
at::Tensor in_layout(const at::Tensor& tensor);

/// Returns an uninitialised tensor in the layout of in_layout.
at::Tensor empty_in_layout(at::IntArrayRef sizes, const at::TensorOptions& options);

/// Encodes a tensor's shape so that LayerCall::saved can hold it without retaining the tensor.
at::Tensor saved_shape(const at::Tensor& tensor);
Shape restore_shape(const at::Tensor& saved);

/// Every worker computes everything.
ShardingOption replicate_option(int inputs, int parameters = 0, int buffers = 0);

/// Returns "replicate", and one option per dim of the output that `degree` divides, in which inputs, output and their
/// gradients are sharded alike. Dims count from 1 (0 is the batch) to `last_dim`. Names: "channels", "height", "width"
/// of [c, h, w]; "sequence", "features" of [t, e]; "channels" of [c].
std::vector<ShardingOption> elementwise_options(int inputs, const Shape& output, int degree, int last_dim);

/// For a norm over the last dim: "replicate", and "sequence" where the first of two or more dims divides evenly. Every
/// worker has the whole parameters, whose gradients are sums over workers.
std::vector<ShardingOption> norm_options(const Shape& input, int degree, int parameters);

/// Adds rows^T values ([r, a] and [r, b]) to the gradient of a parameter of a * b elements, if it is wanted. Writes
/// directly to the flat gradient buffer if the dtypes are equal.
void add_product_gradient(LayerCall& call, int index, const at::Tensor& rows, const at::Tensor& values);

/// Adds zero gradients for all parameters whose gradient is wanted: the contribution of an empty local batch.
void add_zero_gradients(LayerCall& call, int parameters);

}  // namespace trireme
