// Layers of images as ONNX nodes.
#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>

#include "model/export/onnx_graph.h"

namespace trireme {
namespace {

using Inputs = std::vector<std::string>;
using List = std::vector<int64_t>;
using Adder = std::string (*)(OnnxGraph&, const Vertex&, const Inputs&);

std::string parameter(OnnxGraph& g, const Vertex& v, size_t i) { return g.weight(v.parameters().at(i).name); }

/// Before both dims, then after both.
List pads(const List& padding) { return {padding[0], padding[1], padding[0], padding[1]}; }

Inputs with_parameters(OnnxGraph& g, const Vertex& v, Inputs inputs) {
  for (size_t i = 0; i < v.parameters().size(); ++i) inputs.push_back(parameter(g, v, i));
  return inputs;
}

std::string add_conv2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  return g.add("Conv", with_parameters(g, v, in),
               {{"strides", v.list("stride")},
                {"pads", pads(v.list("padding"))},
                {"dilations", v.list("dilation")},
                {"group", v.integer("groups")}});
}

std::string add_conv_transpose2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  return g.add("ConvTranspose", with_parameters(g, v, in),
               {{"strides", v.list("stride")}, {"pads", pads(v.list("padding"))}, {"output_padding", v.list("output_padding")},
                {"group", v.integer("groups")}});
}

/// Padding that gives a pool the layer's output size with sizes rounded down: PyTorch and ONNX do not round up alike.
List pool_pads(const Vertex& v) {
  List result = pads(v.list("padding"));
  for (size_t d = 0; d < 2 && v.flag("ceil_mode"); ++d) {
    const int64_t reach = (v.shape()[d + 1] - 1) * v.list("stride")[d] + v.list("kernel")[d];
    result[d + 2] = std::max<int64_t>(0, reach - v.input_shape(0)[d + 1] - v.list("padding")[d]);
  }
  return result;
}

std::string add_max_pool2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  return g.add("MaxPool", in, {{"kernel_shape", v.list("kernel")}, {"strides", v.list("stride")}, {"pads", pool_pads(v)}});
}

/// Windows that reach past the padding would count it too.
std::string add_avg_pool2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const List all = pool_pads(v);
  const bool counts = v.flag("count_include_pad");
  if (counts && (all[2] > v.list("padding")[0] || all[3] > v.list("padding")[1]))
    fail_export(v.layer(), "ONNX (its windows reach past the padding)");
  return g.add("AveragePool", in,
               {{"kernel_shape", v.list("kernel")}, {"strides", v.list("stride")}, {"pads", all}, {"count_include_pad", int64_t{counts}}});
}

/// [to, from]: row i is the mean of rows floor(i from / to) to ceil((i + 1) from / to).
at::Tensor means(int64_t from, int64_t to) {
  at::Tensor matrix = at::zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
    matrix.select(0, i).narrow(0, begin, end - begin).fill_(1 / double(end - begin));
  }
  return matrix;
}

/// The windows differ in size, so as products: of rows, then of columns.
std::string add_adaptive_avg_pool2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const Shape &from = v.input_shape(0), &to = v.shape();
  if (from == to) return in[0];
  if (to[1] == 1 && to[2] == 1) return g.add("GlobalAveragePool", in);
  const std::string rows = g.add("MatMul", {g.constant(means(from[1], to[1])), in[0]});
  return g.add("MatMul", {rows, g.constant(means(from[2], to[2]).t())});
}

std::string add_global_avg_pool(OnnxGraph& g, const Vertex&, const Inputs& in) {
  return g.add("ReduceMean", in, {{"axes", List{2, 3}}, {"keepdims", int64_t{0}}});
}

std::string add_batch_norm(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  Inputs inputs = with_parameters(g, v, {in[0]});
  for (const BufferSpec& spec : v.buffers()) inputs.push_back(g.weight(spec.name));
  std::string y = g.add("BatchNormalization", inputs, {{"epsilon", v.number("epsilon")}});
  if (v.flag("residual")) y = g.add("Add", {y, in[1]});
  return v.flag("relu") ? g.add("Relu", {y}) : y;
}

/// Each group as one channel of an instance norm, then weight and bias of each channel.
std::string add_group_norm(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const int64_t groups = v.integer("groups"), channels = v.shape()[0];
  const std::string grouped = g.add("Reshape", {in[0], g.constant(List{0, groups, -1})});
  const std::string normal = g.add("InstanceNormalization", {grouped, g.constant(at::ones({groups})), g.constant(at::zeros({groups}))},
                                   {{"epsilon", v.number("epsilon")}});
  List sizes{-1}, of_weights{channels};
  sizes.insert(sizes.end(), v.shape().begin(), v.shape().end());
  of_weights.resize(v.shape().size(), 1);
  const auto weight = [&](size_t i) { return g.add("Reshape", {parameter(g, v, i), g.constant(of_weights)}); };
  return g.add("Add", {g.add("Mul", {g.add("Reshape", {normal, g.constant(sizes)}), weight(0)}), weight(1)});
}

std::string add_image_tokens(OnnxGraph& g, const Vertex&, const Inputs& in) {
  return g.add("Transpose", {g.add("Reshape", {in[0], g.constant(List{0, 0, -1})})}, {{"perm", List{0, 2, 1}}});
}

/// The position of each window's largest value, the first one's among equals.
std::string add_max_pool_indices(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const List& window = v.list("window");
  const int64_t channels = v.shape()[0], rows = v.shape()[1], columns = v.shape()[2];
  const std::string whole =
      g.add("Slice", {in[0], g.constant(List{0, 0}), g.constant(List{rows * window[0], columns * window[1]}), g.constant(List{2, 3})});
  const std::string split = g.add("Reshape", {whole, g.constant(List{-1, channels * rows, window[0], columns, window[1]})});
  const std::string windows = g.add("Transpose", {split}, {{"perm", List{0, 1, 3, 2, 4}}});
  const std::string flat = g.add("Reshape", {windows, g.constant(List{-1, channels, rows, columns, window[0] * window[1]})});
  return g.add("ArgMax", {flat}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
}

/// Every window holds the value where the index says, zeros elsewhere; the rest of a larger image is zeros.
std::string add_max_unpool2d(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const List& window = v.list("window");
  const int64_t channels = v.shape()[0], rows = v.input_shape(0)[1], columns = v.input_shape(0)[2];
  const std::string positions = g.constant(at::arange(window[0] * window[1], at::kLong));
  const auto at_end = [&](const std::string& tensor) { return g.add("Unsqueeze", {tensor, g.constant(List{-1})}); };
  const std::string flat = g.add("Where", {g.add("Equal", {at_end(in[1]), positions}), at_end(in[0]), g.constant(0.0)});
  const std::string windows = g.add("Reshape", {flat, g.constant(List{-1, channels * rows, columns, window[0], window[1]})});
  const std::string split = g.add("Transpose", {windows}, {{"perm", List{0, 1, 3, 2, 4}}});
  const std::string whole = g.add("Reshape", {split, g.constant(List{-1, channels, rows * window[0], columns * window[1]})});
  const int64_t below = v.shape()[1] - rows * window[0], right = v.shape()[2] - columns * window[1];
  if (below == 0 && right == 0) return whole;
  return g.add("Pad", {whole, g.constant(List{0, 0, 0, 0, 0, 0, below, right})});
}

std::string add_upsample(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const std::string first = g.add("Shape", {in[0]}, {{"start", int64_t{0}}, {"end", int64_t{2}}});
  const std::string sizes = g.add("Concat", {first, g.constant(List{v.shape()[1], v.shape()[2]})}, {{"axis", int64_t{0}}});
  const bool nearest = v.kind() == "upsample_nearest2d";
  const std::string places = nearest ? "asymmetric" : v.flag("align_corners") ? "align_corners" : "pytorch_half_pixel";
  return g.add("Resize", {in[0], "", "", sizes},
               {{"mode", std::string(nearest ? "nearest" : "linear")},
                {"coordinate_transformation_mode", places},
                {"nearest_mode", std::string("floor")}});
}

const std::map<std::string, Adder>& adders() {
  static const std::map<std::string, Adder> all{
      {"adaptive_avg_pool2d", add_adaptive_avg_pool2d}, {"avg_pool2d", add_avg_pool2d},
      {"batch_norm", add_batch_norm},                   {"conv2d", add_conv2d},
      {"conv_transpose2d", add_conv_transpose2d},       {"global_avg_pool", add_global_avg_pool},
      {"group_norm", add_group_norm},                   {"image_tokens", add_image_tokens},
      {"max_pool2d", add_max_pool2d},                   {"max_pool_indices", add_max_pool_indices},
      {"max_unpool2d", add_max_unpool2d},               {"upsample_bilinear2d", add_upsample},
      {"upsample_nearest2d", add_upsample},
  };
  return all;
}

}  // namespace

bool is_onnx_image_layer(const std::string& kind) { return adders().contains(kind); }

std::string add_onnx_image_layer(OnnxGraph& graph, const Vertex& vertex, const Inputs& inputs) {
  return adders().at(vertex.kind())(graph, vertex, inputs);
}

}  // namespace trireme
