#include "model/import/form.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "model/import/merge.h"
#include "model/import/split_rules.h"
#include "trireme/error.h"

namespace trireme::torchscript {
namespace {

constexpr size_t kMostSampleDims = 2;  // of a sample that is not an image
constexpr size_t kImageDims = 4;       // including the batch

/// The first extent with more than one element. All extents except the last are folded into one dim; parts of that dim
/// are parts of this extent.
int major_extent(const Shape& extents) {
  for (size_t e = 0; e + 1 < extents.size(); ++e)
    if (extents[e] > 1) return int(e);
  return 0;
}

Shape sample_of(const Shape& extents, bool is_image) {
  if (is_image || extents.size() <= kMostSampleDims) return extents;
  int64_t rows = 1;
  for (size_t e = 0; e + 1 < extents.size(); ++e) rows *= extents[e];
  return {rows, extents.back()};
}

Shape with_samples(int64_t samples, const Shape& sample) {
  Shape sizes = sample;
  sizes.insert(sizes.begin(), samples);
  return sizes;
}

}  // namespace

int Form::dim_of(int extent) const {
  if (is_folded && extent == 0) return batch_dim;
  const int other = extent - int(is_folded);  // position among the dims without the batch
  return other < batch_dim ? other : other + 1;
}

int Form::extent_of(int dim) const {
  if (dim == batch_dim) return is_folded ? 0 : -1;
  return (dim < batch_dim ? dim : dim - 1) + int(is_folded);
}

int Form::layer_dim_of(int extent) const {
  if (!is_collapsed()) return extent + 1;
  if (extent == int(extents.size()) - 1) return 2;
  return extent == major_extent(extents) ? 1 : -1;
}

int Form::extent_of_layer_dim(int layer_dim) const {
  if (!is_collapsed()) return layer_dim - 1;
  return layer_dim == 2 ? int(extents.size()) - 1 : major_extent(extents);
}

Form form_of(const Value& value, bool is_image) {
  check_internal(value.batch_dim >= 0, "a layer's value has a batch dim");
  Form form{
      .extents = {}, .sample = {}, .batch_dim = value.batch_dim, .is_folded = value.fold > 1, .is_image = is_image};
  if (form.is_folded) form.extents.push_back(value.fold);
  for (size_t d = 0; d < value.sizes.size(); ++d)
    if (int(d) != value.batch_dim) form.extents.push_back(value.sizes[d]);
  form.sample = sample_of(form.extents, is_image);
  return form;
}

at::Tensor as_value(const at::Tensor& tensor, const Form& form, const Shape& extents) {
  Shape sizes = extents;
  if (form.is_folded) sizes[0] *= tensor.size(0);
  else sizes.insert(sizes.begin(), tensor.size(0));
  const at::Tensor shaped = tensor.sizes() == at::IntArrayRef(sizes) ? tensor : tensor.reshape(sizes);
  return form.batch_dim == 0 ? shaped : shaped.movedim(0, form.batch_dim);
}

at::Tensor as_layer_tensor(const at::Tensor& value, const Form& form, const Shape& extents, int64_t samples) {
  const at::Tensor first = form.batch_dim == 0 ? value : value.movedim(form.batch_dim, 0);
  const Shape sizes = with_samples(samples, sample_of(extents, form.is_image));
  return first.sizes() == at::IntArrayRef(sizes) ? first : first.reshape(sizes);
}

std::vector<bool> find_images(const Graph& graph) {
  static const std::set<std::string_view> of_images{"aten::conv2d",
                                                    "aten::_convolution",
                                                    "aten::convolution",
                                                    "aten::conv_transpose2d",
                                                    "aten::batch_norm",
                                                    "aten::group_norm",
                                                    "aten::instance_norm",
                                                    "aten::max_pool2d",
                                                    "aten::max_pool2d_with_indices",
                                                    "aten::avg_pool2d",
                                                    "aten::adaptive_avg_pool2d",
                                                    "aten::adaptive_max_pool2d",
                                                    "aten::upsample_nearest2d",
                                                    "aten::upsample_bilinear2d",
                                                    "aten::upsample_bicubic2d",
                                                    "aten::pixel_shuffle",
                                                    "aten::pixel_unshuffle",
                                                    "aten::local_response_norm",
                                                    "aten::channel_shuffle",
                                                    "aten::feature_dropout"};
  std::vector<bool> images(graph.values.size());
  const auto mark = [&](ValueId id) {
    const Value& value = graph.value(id);
    const bool fits =
        value.sizes.size() == kImageDims && value.batch_dim == 0 && value.fold == 1 && value.is_floating();
    if (!fits || images[size_t(id)]) return false;
    images[size_t(id)] = true;
    return true;
  };
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind == Value::Kind::input) mark(ValueId(v));
  for (const Operator& op : graph.operators) {
    if (!of_images.contains(op.name)) continue;
    mark(op.arguments[0].value);
    for (ValueId id : op.results) mark(id);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Operator& op : graph.operators) {
      const bool drops = op.name == kDropSamples || op.name == "aten::dropout";
      const bool joins =
          op.name == "aten::cat" || op.name == "aten::slice_scatter" || op.name == "aten::select_scatter";
      if (!is_elementwise(op.name) && !joins && !drops) continue;
      bool any = false;
      const auto look = [&](ValueId id) { any = any || images[size_t(id)]; };
      for (const Argument& argument : op.arguments) for_each_value(argument, look);
      for (ValueId id : op.results) look(id);
      if (!any) continue;
      const auto spread = [&](ValueId id) { changed = mark(id) || changed; };
      for (const Argument& argument : op.arguments) for_each_value(argument, spread);
      for (ValueId id : op.results) spread(id);
    }
  }
  return images;
}

}  // namespace trireme::torchscript
