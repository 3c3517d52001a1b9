// Cases of layers for images that layer_cases.cpp does not have.
#include "layer_cases.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/max_unpool2d.h"
#include "trireme/layers/slice.h"
#include "trireme/layers/softmax.h"
#include "trireme/layers/upsample2d.h"

namespace trireme::test_support {

std::vector<LayerCase> vision_cases() {
  const Shape image{8, 4, 3};
  auto conv = [](Conv2dOptions o) { return std::make_shared<const Conv2d>("layer", o); };
  auto max_pool = [](MaxPool2dOptions o) { return std::make_shared<const MaxPool2d>("layer", o); };
  auto avg_pool = [](AvgPool2dOptions o) { return std::make_shared<const AvgPool2d>("layer", o); };
  auto activation = [](Function f) { return std::make_shared<const Activation>("layer", f); };
  auto transpose = [](ConvTranspose2dOptions o) { return std::make_shared<const ConvTranspose2d>("layer", o); };
  auto upsample = [](Upsample2dOptions o) { return std::make_shared<const Upsample2d>("layer", o); };
  auto adaptive = [](Size2d size) { return std::make_shared<const AdaptiveAvgPool2d>("layer", size); };
  auto unpool = [](MaxUnpool2dOptions o) { return std::make_shared<const MaxUnpool2d>("layer", o); };
  return {
      {"conv_row", conv({.in = 8, .out = 12, .kernel = {1, 5}, .padding = {0, 2}}), {image}},
      {"conv_column_strides",
       conv({.in = 8, .out = 4, .kernel = {3, 1}, .stride = {2, 1}, .padding = {1, 0}}),
       {image}},
      {"conv_dilated",
       conv({.in = 8, .out = 4, .kernel = 3, .stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 1}}),
       {{8, 8, 5}}},
      {"conv_depthwise", conv({.in = 8, .out = 8, .kernel = 3, .padding = 1, .groups = 8}), {image}},
      {"max_pool_ceil", max_pool({.kernel = 3, .stride = 2, .ceil_mode = true}), {{8, 6, 8}}},
      {"max_pool_row", max_pool({.kernel = {1, 3}, .stride = {1, 2}, .padding = {0, 1}}), {{8, 4, 5}}},
      {"avg_pool_ceil", avg_pool({.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}), {{8, 6, 4}}},
      {"avg_pool_own_pixels",
       avg_pool({.kernel = {3, 2}, .stride = 2, .padding = 1, .count_include_pad = false}),
       {{8, 6, 4}}},
      {"silu", activation(Function::silu), {image}},
      {"hardsigmoid", activation(Function::hardsigmoid), {image}},
      {"hardswish", activation(Function::hardswish), {image}},
      {"relu6", activation(Function::relu6), {image}},
      {"conv_transpose", transpose({.in = 8, .out = 12}), {image}},
      {"conv_transpose_overlap",
       transpose({.in = 8,
                  .out = 4,
                  .kernel = {3, 2},
                  .stride = {2, 1},
                  .padding = {1, 0},
                  .output_padding = {1, 0},
                  .bias = false}),
       {image}},
      {"conv_transpose_groups",
       transpose({.in = 8, .out = 16, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1, .groups = 4}),
       {image}},
      {"upsample_nearest", upsample({.factor = {2, 3}}), {image}},
      {"upsample_nearest_size", upsample({.size = {7, 2}}), {image}},
      {"upsample_bilinear", upsample({.mode = Interpolation::bilinear}), {image}},
      {"upsample_bilinear_corners",
       upsample({.mode = Interpolation::bilinear, .size = {9, 2}, .align_corners = true}),
       {image}},
      {"adaptive_avg_pool", adaptive({3, 2}), {{8, 5, 4}}},
      {"adaptive_avg_pool_larger", adaptive({7, 5}), {image}},
      {"adaptive_avg_pool_same", adaptive({4, 3}), {image}},
      {"max_unpool", unpool({}), {image, image}, 4},
      {"max_unpool_size", unpool({.window = {2, 3}, .size = {9, 10}}), {image, image}, 6},
      {"softmax_channels", std::make_shared<const Softmax>("layer", 1), {image}},
      {"slice_channels", std::make_shared<const Slice>("layer", SliceOptions{.begin = 1, .end = 4}), {image}},
  };
}

}  // namespace trireme::test_support
