// The layout of a TorchScript value in the tensor that passes between layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/import/graph.h"

namespace trireme::torchscript {

/// TorchScript's tensors may have the batch in any dim, or folded with others into one dim: [windows of all samples,
/// positions, features]. A layer's tensor is [n, ...sample]: the batch is moved to the front. Unless the value is an
/// image [c, h, w], the dims of a sample beyond two are folded into its first one, which moves nothing in memory.
struct Form {
  Shape extents;  ///< the value's dims without the batch; a part folded into the batch dim comes first
  Shape sample;   ///< sample shape of the layer's tensor
  int batch_dim = 0;
  bool is_folded = false;  ///< extents[0] is part of the batch dim
  bool is_image = false;

  bool is_collapsed() const { return sample.size() != extents.size(); }

  /// Converts between positions in `extents` and dims of the value. The extent that is folded into the batch dim maps
  /// to the batch dim.
  int dim_of(int extent) const;
  int extent_of(int dim) const;  ///< -1 for a batch dim that holds only samples
  /// The dim of a layer's tensor whose equal parts correspond to equal parts of an extent; -1 if there is none.
  int layer_dim_of(int extent) const;
  int extent_of_layer_dim(int layer_dim) const;

  friend bool operator==(const Form&, const Form&) = default;
};

/// Returns the form of a value that has a batch dim.
Form form_of(const Value& value, bool is_image);

/// Converts a layer's tensor to the value's layout, where this worker holds `extents` of it. Returns a view if the
/// memory layout allows.
at::Tensor as_value(const at::Tensor& tensor, const Form& form, const Shape& extents);
/// The inverse, for `samples` samples.
at::Tensor as_layer_tensor(const at::Tensor& value, const Form& form, const Shape& extents, int64_t samples);

/// Per value: true if it is an image [n, c, h, w], to be stored in channels_last order. Images are the values that
/// convolutions, pools and similar operators read and write, and the values that are combined with those element by
/// element.
std::vector<bool> find_images(const Graph& graph);

}  // namespace trireme::torchscript
