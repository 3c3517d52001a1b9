#include "trireme/layers/upsample2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

/// Saved tensors: shape of the input, and an empty tensor of its dtype.
enum UpsampleSaved { kUpsampleShape, kUpsampleType };

/// Converts to a dtype in which ATen interpolates on the CPU.
at::Tensor in_float(const at::Tensor& images) {
  return in_layout(images.scalar_type() == at::kDouble ? images : images.to(at::kFloat));
}

}  // namespace

Upsample2d::Upsample2d(std::string name, Upsample2dOptions options) : Layer(std::move(name)), options_(options) {
  const bool by_size = options_.size != Size2d(0);
  if (by_size ? !options_.size.at_least(1) : !options_.factor.at_least(1))
    fail_shape(*this, fmt::format("factor {}, size {}", to_string(options_.factor), to_string(options_.size)),
               "a size, or else a factor, must be positive", "correct the layer's options");
  if (options_.align_corners && options_.mode == Interpolation::nearest)
    fail_shape(*this, "align_corners with nearest neighbours", "only bilinear interpolation supports it",
               "leave it out");
}

std::string_view Upsample2d::kind() const {
  return options_.mode == Interpolation::nearest ? "upsample_nearest2d" : "upsample_bilinear2d";
}

Attributes Upsample2d::attributes() const {
  return {
      {"factor", options_.factor.list()}, {"size", options_.size.list()}, {"align_corners", options_.align_corners}};
}

Shape Upsample2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (options_.size != Size2d(0)) return {in[0], options_.size.height, options_.size.width};
  return {in[0], in[1] * options_.factor.height, in[2] * options_.factor.width};
}

std::vector<ShardingOption> Upsample2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  const int64_t rows = inputs[0][1], output_rows = output_shape(inputs)[1];
  if (degree > 1 && options_.mode == Interpolation::nearest && rows % degree == 0 && output_rows % rows == 0)
    options.push_back(height_option(1, Placement::shard(2), 0, 0, /*communicates=*/false));
  return options;
}

double Upsample2d::forward_flops(std::span<const Shape> inputs) const {
  const double per_output = options_.mode == Interpolation::nearest ? 1 : 8;
  return per_output * double(element_count(output_shape(inputs)));
}

Size2d Upsample2d::extent(const LayerCall& call, int64_t height, int64_t width) const {
  const bool by_size = options_.size != Size2d(0);
  if (!by_size) return {height * options_.factor.height, width * options_.factor.width};
  return {options_.size.height / (is_split_by_height(call) ? call.tensor_degree : 1), options_.size.width};
}

at::Tensor Upsample2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  const Size2d size = extent(call, input.size(2), input.size(3));
  call.saved = {saved_shape(input), at::empty({0}, input.options())};
  if (input.size(0) == 0) return empty_in_layout({0, input.size(1), size.height, size.width}, input.options());
  const at::Tensor output = options_.mode == Interpolation::nearest
                                ? at::upsample_nearest2d(in_float(input), size.values())
                                : at::upsample_bilinear2d(in_float(input), size.values(), options_.align_corners);
  return in_layout(output.to(input.scalar_type()));
}

std::vector<at::Tensor> Upsample2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(kUpsampleShape));
  const at::TensorOptions type = call.saved.at(kUpsampleType).options();
  if (shape[0] == 0) return {empty_in_layout(shape, type)};
  const std::array<int64_t, 2> size{output_gradient.size(2), output_gradient.size(3)};
  const at::Tensor gradient = in_float(output_gradient);
  const at::Tensor result = options_.mode == Interpolation::nearest
                                ? at::upsample_nearest2d_backward(gradient, size, shape)
                                : at::upsample_bilinear2d_backward(gradient, size, shape, options_.align_corners);
  return {in_layout(result.to(type.dtype()))};
}

/// In bfloat16 it interpolates copies in float.
LayerMemory Upsample2d::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  if (call.compute != 2) return memory;
  const int64_t x = 4 * call.inputs[0].count(), y = 4 * call.output.count();
  set_forward_peak(memory, {memory.saved + x + y, memory.saved + y + memory.output});
  memory.backward_workspace = x + y;
  return memory;
}

std::string Upsample2d::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const std::string first = w.add("Shape", {w.in()}, {{"start", int64_t{0}}, {"end", int64_t{2}}});
  const std::string sizes =
      w.add("Concat", {first, w.constant(List{w.shape()[1], w.shape()[2]})}, {{"axis", int64_t{0}}});
  const bool nearest = options_.mode == Interpolation::nearest;
  const std::string places = nearest ? "asymmetric" : options_.align_corners ? "align_corners" : "pytorch_half_pixel";
  return w.add("Resize", {w.in(), "", "", sizes},
               {{"mode", std::string(nearest ? "nearest" : "linear")},
                {"coordinate_transformation_mode", places},
                {"nearest_mode", std::string("floor")}});
}

void Upsample2d::to_script(ScriptWriter& w) const {
  const Size2d& factor = options_.factor;
  const std::string extent = options_.size.height > 0 ? script_literal(options_.size.list())
                                                      : fmt::format("[{}.size(2) * {}, {}.size(3) * {}]", w.in(),
                                                                    factor.height, w.in(), factor.width);
  std::vector<std::string> arguments{w.in(), extent};
  if (options_.mode == Interpolation::bilinear) arguments.push_back(script_literal(options_.align_corners));
  w.result(script_call(std::string(kind()).c_str(), arguments));
}

}  // namespace trireme
