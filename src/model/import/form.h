// How a value of a TorchScript graph lies in the tensor that goes from layer to layer.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/import/graph.h"

namespace trireme::torchscript {

/// TorchScript's tensors may have the batch in any dim, or folded into one: [windows of all samples, positions,
/// features]. A layer's tensor is [n, ...sample]: the batch is taken out and put first. Dims of a sample beyond two are
/// folded into its first one, which moves nothing in memory, unless the value is an image [c, h, w].
struct Form {
  Shape extents;  ///< the value's dims without the batch; what is folded into the batch dim comes first
  Shape sample;   ///< of the layer's tensor
  int batch_dim = 0;
  bool is_folded = false;  ///< extents[0] lies in the batch dim
  bool is_image = false;

  bool is_collapsed() const { return sample.size() != extents.size(); }

  /// Positions in `extents` <-> dims of the value. The batch dim stands for what is folded into it.
  int dim_of(int extent) const;
  int extent_of(int dim) const;  ///< -1 for a batch dim that holds nothing but samples
  /// The dim of a layer's tensor whose equal parts are those of an extent; -1 where there is none.
  int layer_dim_of(int extent) const;
  int extent_of_layer_dim(int layer_dim) const;

  friend bool operator==(const Form&, const Form&) = default;
};

/// The form of a value that has a batch dim.
Form form_of(const Value& value, bool is_image);

/// A layer's tensor as the value, where a worker holds `extents` of it. A view where the memory allows one.
at::Tensor as_value(const at::Tensor& tensor, const Form& form, const Shape& extents);
/// The other way, of `samples` samples.
at::Tensor as_layer_tensor(const at::Tensor& value, const Form& form, const Shape& extents, int64_t samples);

/// By value: whether it is an image [n, c, h, w], to be kept in channels_last order: what convolutions, pools and the
/// like read and write, and what is combined with that element by element.
std::vector<bool> find_images(const Graph& graph);

}  // namespace trireme::torchscript
