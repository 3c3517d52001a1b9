// Layers on images and elementwise ones.
#include <ATen/ATen.h>

#include "cost/declared_kinds.h"
#include "model/layers/conv2d_product.h"
#include "model/layers/halo.h"

namespace trireme::declared {
namespace {

bool flag(const CallShapes& call, const char* name) { return std::get<bool>(call.layer->attributes().at(name)); }
int64_t number(const CallShapes& call, const char* name) { return std::get<int64_t>(call.layer->attributes().at(name)); }
/// [height, width]
const std::vector<int64_t> sizes(const CallShapes& call, const char* name) {
  return std::get<std::vector<int64_t>>(call.layer->attributes().at(name));
}

LayerMemory keeping_input(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input[0] = true;
  return memory;
}

LayerMemory keeping_output(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_output = true;
  return memory;
}

/// x between two bounds: three masks and their product with the slope.
LayerMemory clamping(const CallShapes& call) {
  LayerMemory memory = keeping_input(call);
  const CallTensor& x = call.inputs[0];
  set_backward_peak(memory, {3 * x.count() + 2 * x.bytes()});
  return memory;
}

/// Both inputs get the output's gradient.
LayerMemory add(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.input_gradients = {0, 0};
  return memory;
}

LayerMemory add_relu(const CallShapes& call) {
  LayerMemory memory = keeping_output(call);
  if (call.wanted[0] && call.wanted[1]) memory.input_gradients[1] = 0;  // both are one tensor
  return memory;
}

LayerMemory concat(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.saved = 8 * int64_t(call.inputs.size());
  memory.input_gradients.assign(call.inputs.size(), 0);  // views
  return memory;
}

LayerMemory slice(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

/// A mask of bytes, made in the order of samples and then brought into that of images.
LayerMemory dropout(const CallShapes& call) {
  if (std::get<double>(call.layer->attributes().at("probability")) == 0) return renamed(call, 0);
  LayerMemory memory = plain(call);
  memory.saved = call.inputs[0].count();
  memory.forward_workspace = memory.backward_workspace = call.inputs[0].bytes();  // the mask in the input's type
  return memory;
}

/// One factor per sample, or per channel of it; drawn as bytes.
LayerMemory drop_samples(const CallShapes& call) {
  if (std::get<double>(call.layer->attributes().at("probability")) == 0) return renamed(call, 0);
  LayerMemory memory = plain(call);
  int64_t factors = call.samples;
  for (int64_t dim = 1; dim <= number(call, "dims"); ++dim) factors *= call.inputs[0].shape[size_t(dim)];
  memory.saved = factors * call.compute;
  return memory;
}

LayerMemory flatten(const CallShapes& call) {
  const Shape& in = call.inputs[0].shape;
  const bool same_order = in.size() != 4 || in[1] == 1 || in[2] * in[3] == 1;
  if (same_order) return renamed(call, shape_bytes(call.inputs[0]));
  LayerMemory memory = plain(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

LayerMemory global_avg_pool(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.saved = shape_bytes(call.inputs[0]);
  memory.backward_workspace = call.output.bytes();
  return memory;
}

LayerMemory adaptive_avg_pool2d(const CallShapes& call) {
  const Shape &in = call.inputs[0].shape, &out = call.output.shape;
  const int64_t shape = shape_bytes(call.inputs[0]);
  if (in == out) return renamed(call, shape);
  LayerMemory memory = plain(call);
  memory.saved = shape;
  memory.backward_workspace = call.inputs[0].bytes();  // ATen asks for a tensor like the input
  return memory;
}

/// Rows of an image that a split by height borrows from neighbours make the kept input a tensor of its own.
struct Extended {
  int64_t bytes = 0;  ///< of the input with its halo; 0 where there is none
};

Extended extended_input(const CallShapes& call, const Window& rows) {
  const CallTensor& x = call.inputs[0];
  const Halo halo = halo_of(rows);
  if (call.tensor == 1 || call.option->inputs[0] != Placement::shard(2) || halo.none() || x.shape.size() != 4) return {};
  return {x.bytes() / x.shape[2] * (halo.above + x.shape[2] + halo.below)};
}

void keep_input(LayerMemory& memory, const Extended& extended) {
  if (extended.bytes == 0) memory.keeps_input[0] = true;
  else memory.saved += extended.bytes;
}

Window pool_rows(const CallShapes& call) {
  return {.kernel = sizes(call, "kernel")[0], .stride = sizes(call, "stride")[0], .padding = sizes(call, "padding")[0],
          .ceil = flag(call, "ceil_mode")};
}

LayerMemory avg_pool2d(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const Extended extended = extended_input(call, pool_rows(call));
  keep_input(memory, extended);
  memory.backward_workspace = extended.bytes;
  return memory;
}

LayerMemory max_pool2d(const CallShapes& call) {
  LayerMemory memory = avg_pool2d(call);
  memory.saved += 8 * call.output.count();  // indices
  return memory;
}

LayerMemory max_unpool2d(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input[1] = true;
  return memory;
}

LayerMemory max_pool_indices(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.input_gradients = {0};
  return memory;
}

/// The gradient of the weight, before it is added to the parameter's.
int64_t weight_gradient_bytes(const CallShapes& call) {
  int64_t bytes = 0;
  for (const CallTensor& parameter : call.parameters) bytes += parameter.bytes();
  return bytes;
}

LayerMemory conv2d(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const std::vector<int64_t> stride = sizes(call, "stride"), dilation = sizes(call, "dilation"), padding = sizes(call, "padding");
  const Shape &in = call.inputs[0].shape, &weight = call.parameters[0].shape;
  const Window rows{.kernel = weight[2], .stride = stride[0], .padding = padding[0], .dilation = dilation[0]};
  const Extended extended = extended_input(call, rows);
  keep_input(memory, extended);
  const int64_t x = call.wanted[0] ? call.inputs[0].bytes() : 0;
  set_backward_peak(memory, {extended.bytes + x, extended.bytes + x + weight_gradient_bytes(call)});
  const bool one_tap = weight[2] == 1 && weight[3] == 1;
  const bool is_plain = number(call, "groups") == 1 && (one_tap || dilation == std::vector<int64_t>{1, 1});
  if (!is_plain || call.samples == 0) return memory;
  const auto type = call.compute == 2 ? at::kBFloat16 : call.compute == 8 ? at::kDouble : at::kFloat;
  const auto like = at::TensorOptions().device(at::kMeta).dtype(type).memory_format(at::MemoryFormat::ChannelsLast);
  Shape read = in;
  const bool by_height = call.tensor > 1 && call.option->inputs[0] == Placement::shard(2);
  if (extended.bytes > 0) read[2] = in[2] * extended.bytes / call.inputs[0].bytes();
  const ConvolutionProduct product(at::empty(read, like), at::empty(weight, like), {stride[0], stride[1]}, by_height ? 0 : padding[0], padding[1]);
  if (!product.pays()) return memory;
  const int64_t unfolded = product.unfolded_elements() * call.compute;
  memory.forward_workspace = unfolded;
  const int64_t bias = call.parameters.size() > 1 ? call.parameters[1].bytes() : 0;
  set_backward_peak(memory, {extended.bytes + x + std::max(unfolded, bias)});
  return memory;
}

/// The convolution whose adjoint it is asks for a tensor like its input.
LayerMemory conv_transpose2d(const CallShapes& call) {
  LayerMemory memory = keeping_input(call);
  memory.forward_workspace = call.output.bytes();
  memory.backward_workspace = call.parameters[0].bytes();
  return memory;
}

/// In bfloat16 it interpolates copies in float.
LayerMemory upsample(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.saved = shape_bytes(call.inputs[0]);
  if (call.compute != 2) return memory;
  const int64_t x = 4 * call.inputs[0].count(), y = 4 * call.output.count();
  set_forward_peak(memory, {memory.saved + x + y, memory.saved + y + memory.output});
  memory.backward_workspace = x + y;
  return memory;
}

constexpr int64_t kStateRows = 4;  ///< mean, 1 / deviation, scale, shift; doubles

/// Of [n, channels, length]: the kernels' copies, whose channels lie together, of all that goes in and comes out.
LayerMemory sequence_norm(LayerMemory memory, const CallShapes& call, bool relu, bool residual) {
  const int64_t x = call.inputs[0].bytes(), copies = residual ? 2 : 1;
  memory.saved += memory.keeps_output ? 2 * x : x;
  memory.forward_workspace += memory.keeps_output ? x : copies * x;  // an output that is kept is one of the copies
  memory.keeps_input[0] = memory.keeps_output = false;
  if (residual && call.wanted[1]) memory.input_gradients[1] = x;
  memory.backward_workspace += residual && !relu ? x : 2 * x;
  return memory;
}

LayerMemory batch_norm(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const bool relu = flag(call, "relu"), residual = flag(call, "residual");
  const Shape& in = call.inputs[0].shape;
  const int64_t row = in[1] * 8;
  memory.keeps_input[0] = true;
  memory.keeps_output = relu && residual;
  memory.saved = kStateRows * row;
  if (residual && !relu) memory.input_gradients[1] = 0;  // the output's
  // copies of the state in the kernels' arithmetic, statistics and sums
  memory.forward_workspace = 4 * row;
  memory.backward_workspace = 6 * row;
  const bool is_copied = in.size() == 3 && in[1] > 1 && in[2] > 1;
  return is_copied ? sequence_norm(memory, call, relu, residual) : memory;
}

/// libtorch's kernels read whole channels: images are copied there and back.
LayerMemory group_norm(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const CallTensor& x = call.inputs[0];
  const bool images = x.shape.size() == 4;
  const int64_t groups = number(call, "groups"), local_groups = groups / (call.option->inputs[0].is_shard() ? call.tensor : 1);
  const int64_t statistics = 2 * call.samples * local_groups * call.master, floats = x.count() * call.master;
  memory.saved = statistics;
  if (images) memory.saved += x.bytes();
  else memory.keeps_input[0] = true;
  const bool mixed = call.compute != call.master;
  const int64_t y = call.output.bytes();
  if (mixed) set_forward_peak(memory, {memory.saved + 2 * floats, memory.saved + floats + y + (images ? y : 0)});
  else if (images) memory.forward_workspace = y;
  // gradients in the kernels' order and type, sums per sample and channel and over samples; then the input's gradient in its own
  const int64_t channels = x.shape[1], sums = 2 * (call.samples + 1) * channels * call.master;
  const int64_t copies = mixed ? (images ? 3 : 2) : (images ? 1 : 0);
  set_backward_peak(memory, {copies * floats + floats + sums, floats + x.bytes() * (images || mixed ? 1 : 0)});
  return memory;
}

}  // namespace

const DeclarationTable& image_layers() {
  static const DeclarationTable table{
      {"relu", keeping_output}, {"tanh", keeping_output}, {"sigmoid", keeping_output}, {"gelu", keeping_input},
      {"gelu_tanh", keeping_input}, {"silu", keeping_input}, {"hardswish", keeping_input}, {"hardsigmoid", clamping},
      {"relu6", clamping}, {"add", add}, {"add_relu", add_relu}, {"concat", concat}, {"slice", slice}, {"dropout", dropout},
      {"drop_samples", drop_samples}, {"flatten", flatten}, {"global_avg_pool", global_avg_pool},
      {"adaptive_avg_pool2d", adaptive_avg_pool2d}, {"avg_pool2d", avg_pool2d}, {"max_pool2d", max_pool2d},
      {"max_pool_indices", max_pool_indices}, {"max_unpool2d", max_unpool2d}, {"conv2d", conv2d},
      {"conv_transpose2d", conv_transpose2d}, {"upsample_nearest2d", upsample}, {"upsample_bilinear2d", upsample},
      {"batch_norm", batch_norm}, {"group_norm", group_norm}};
  return table;
}

}  // namespace trireme::declared
