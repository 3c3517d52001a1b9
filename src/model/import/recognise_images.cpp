// Recognises operators on images: convolutions, pools, interpolation.
#include <algorithm>

#include "model/import/draft.h"
#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/upsample2d.h"

namespace trireme::torchscript {
namespace {

constexpr size_t kWeightDims = 4;  // [out, in / groups, kernel height, width]

const Form* image(const Draft& draft, const Argument* argument) {
  const Form* form = draft.form(argument);
  return form != nullptr && form->is_image ? form : nullptr;
}

/// Returns the padding that an operator states as numbers, or as "same" or "valid".
std::optional<Size2d> padding_of(const Operator& op, Size2d kernel, Size2d dilation) {
  const Argument* argument = op.find("padding");
  if (argument == nullptr || !argument->constant.isString()) return size_argument(op, "padding");
  if (argument->constant.toStringRef() == "valid") return Size2d(0);
  const Size2d around(dilation.height * (kernel.height - 1), dilation.width * (kernel.width - 1));
  const bool even = around.height % 2 == 0 && around.width % 2 == 0;
  return even ? std::optional(Size2d(around.height / 2, around.width / 2)) : std::nullopt;
}

struct Convolution {
  std::string module;
  Shape weight;
  Size2d stride = 1, padding = 0, dilation = 1, output_padding = 0;
  int64_t groups = 1;
  bool bias = false, transposed = false;
};

std::optional<Convolution> convolution_of(const Draft& draft, const Operator& op) {
  const Argument *weight = op.find("weight"), *bias = op.find("bias");
  const Value* parameter = draft.parameter(weight);
  if (parameter == nullptr || parameter->sizes.size() != kWeightDims) return std::nullopt;
  Convolution c{.module = draft.module_of(weight, bias), .weight = parameter->sizes};
  const auto stride = size_argument(op, "stride"), dilation = size_argument(op, "dilation");
  const auto padding = padding_of(op, {c.weight[2], c.weight[3]}, dilation.value_or(1));
  const auto groups = int_argument(op, "groups");
  if (c.module.empty() || !stride || !dilation || !padding || !groups) return std::nullopt;
  c.stride = *stride;
  c.dilation = *dilation;
  c.padding = *padding;
  c.groups = *groups;
  c.bias = bias != nullptr;
  c.transposed = flag_argument(op, "transposed") || op.name.starts_with("aten::conv_transpose");
  c.output_padding = size_argument(op, "output_padding").value_or(0);
  return c;
}

std::shared_ptr<const Layer> layer_of(const Convolution& c) {
  const Size2d kernel(c.weight[2], c.weight[3]);
  if (!c.transposed)
    return std::make_shared<const Conv2d>(c.module, Conv2dOptions{.in = c.weight[1] * c.groups,
                                                                  .out = c.weight[0],
                                                                  .kernel = kernel,
                                                                  .stride = c.stride,
                                                                  .padding = c.padding,
                                                                  .groups = c.groups,
                                                                  .bias = c.bias,
                                                                  .dilation = c.dilation});
  return std::make_shared<const ConvTranspose2d>(c.module, ConvTranspose2dOptions{.in = c.weight[0],
                                                                                  .out = c.weight[1] * c.groups,
                                                                                  .kernel = kernel,
                                                                                  .stride = c.stride,
                                                                                  .padding = c.padding,
                                                                                  .output_padding = c.output_padding,
                                                                                  .groups = c.groups,
                                                                                  .bias = c.bias});
}

}  // namespace

bool recognise_convolution(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const bool is_one = op.name == "aten::conv2d" || op.name == "aten::_convolution" || op.name == "aten::convolution" ||
                      op.name == "aten::conv_transpose2d";
  if (!is_one || image(draft, op.find("input")) == nullptr) return false;
  const auto c = convolution_of(draft, op);
  if (!c || (c->transposed && c->dilation != Size2d(1))) return false;
  draft.new_name(c->module);
  draft.add({layer_of(*c), {op.find("input")->value}, op.result(), {index}});
  return true;
}

namespace {

std::shared_ptr<const Layer> max_pool(Draft& draft, const Operator& op) {
  const auto kernel = size_argument(op, "kernel_size"), padding = size_argument(op, "padding"),
             dilation = size_argument(op, "dilation");
  if (!kernel || !padding || dilation != Size2d(1)) return nullptr;
  return std::make_shared<const MaxPool2d>(draft.new_name(op, "max_pool2d"),
                                           MaxPool2dOptions{.kernel = *kernel,
                                                            .stride = size_argument(op, "stride").value_or(*kernel),
                                                            .padding = *padding,
                                                            .ceil_mode = flag_argument(op, "ceil_mode")});
}

std::shared_ptr<const Layer> avg_pool(Draft& draft, const Operator& op) {
  const auto kernel = size_argument(op, "kernel_size"), padding = size_argument(op, "padding");
  if (!kernel || !padding || op.find("divisor_override") != nullptr) return nullptr;
  return std::make_shared<const AvgPool2d>(
      draft.new_name(op, "avg_pool2d"), AvgPool2dOptions{.kernel = *kernel,
                                                         .stride = size_argument(op, "stride").value_or(*kernel),
                                                         .padding = *padding,
                                                         .ceil_mode = flag_argument(op, "ceil_mode"),
                                                         .count_include_pad = flag_argument(op, "count_include_pad")});
}

/// Uses the size of the result. PyTorch uses a fractional scale factor itself, not the quotient of the sizes; such an
/// operator is not recognised.
std::shared_ptr<const Layer> upsample(Draft& draft, const Operator& op, const Shape& from, const Shape& to) {
  const bool by_scale = op.find("scale_factors") != nullptr || op.find("scales_h") != nullptr;
  if (by_scale && (to[1] % from[1] != 0 || to[2] % from[2] != 0)) return nullptr;
  const bool nearest = op.name == "aten::upsample_nearest2d";
  return std::make_shared<const Upsample2d>(
      draft.new_name(op, "upsample2d"),
      Upsample2dOptions{.mode = nearest ? Interpolation::nearest : Interpolation::bilinear,
                        .size = Size2d(to[1], to[2]),
                        .align_corners = !nearest && flag_argument(op, "align_corners")});
}

}  // namespace

bool recognise_pool(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (op.arguments.empty() || op.results.size() != 1) return false;
  const Form* input = image(draft, &op.arguments[0]);
  if (input == nullptr || !draft.form(op.result())) return false;
  std::shared_ptr<const Layer> layer;
  const Shape& size = draft.form(op.result())->sample;
  if (op.name == "aten::max_pool2d") layer = max_pool(draft, op);
  if (op.name == "aten::avg_pool2d") layer = avg_pool(draft, op);
  if (op.name == "aten::adaptive_avg_pool2d")
    layer =
        std::make_shared<const AdaptiveAvgPool2d>(draft.new_name(op, "adaptive_avg_pool2d"), Size2d(size[1], size[2]));
  if (op.name == "aten::upsample_nearest2d" || op.name == "aten::upsample_bilinear2d")
    layer = upsample(draft, op, input->sample, size);
  if (!layer) return false;
  draft.add({layer, {op.arguments[0].value}, op.result(), {index}});
  return true;
}

}  // namespace trireme::torchscript
