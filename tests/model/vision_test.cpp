// Layers of segmentation networks: indices of maxima and back, shapes, wrong use.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "layer_cases.h"
#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/max_pool_indices.h"
#include "trireme/layers/max_unpool2d.h"
#include "trireme/layers/select_position.h"
#include "trireme/layers/slice.h"
#include "trireme/layers/softmax.h"
#include "trireme/layers/upsample2d.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

at::Tensor run(const Layer& layer, std::vector<at::Tensor> inputs) {
  TestCall call;
  return layer.forward(call, inputs);
}

/// Images with each maximum of `images` at its position, zeros elsewhere, by ATen's max pool and unpool.
at::Tensor maxima_by_aten(const at::Tensor& images, at::IntArrayRef window) {
  const at::Tensor plain = images.contiguous().to(at::kDouble);
  auto [values, indices] = at::max_pool2d_with_indices(plain, window);
  return at::max_unpool2d(values, indices, {images.size(2), images.size(3)}).to(images.scalar_type());
}

class MaxIndices : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(MaxIndices, LeadBackToWhereTheMaximaWere) {
  struct Case {
    Shape sizes;
    Size2d window;
  };
  for (const Case& c :
       {Case{{2, 5, 6, 8}, 2}, Case{{1, 3, 7, 9}, {3, 2}}, Case{{2, 1, 5, 5}, 5}, Case{{0, 4, 4, 4}, 2}}) {
    const at::Tensor images = random_tensor(c.sizes, 3).to(GetParam());
    const at::Tensor indices = run(MaxPoolIndices("indices", c.window), {images});
    EXPECT_EQ(indices.scalar_type(), at::kByte);
    EXPECT_TRUE(indices.is_contiguous(at::MemoryFormat::ChannelsLast));
    if (images.size(0) == 0) continue;
    const auto window = c.window.values();
    const at::Tensor values = at::max_pool2d(images, window);
    const MaxUnpool2d unpool("unpool", {.window = c.window, .size = {c.sizes[2], c.sizes[3]}});
    EXPECT_TRUE(at::equal(run(unpool, {values, indices}), maxima_by_aten(images, window))) << to_string(c.sizes);
  }
}

TEST_P(MaxIndices, TheFirstOfEqualsCounts) {
  const at::Tensor images = at::zeros({1, 2, 4, 4}, GetParam());
  EXPECT_EQ(run(MaxPoolIndices("indices"), {images}).max().item<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, MaxIndices, ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(MaxIndicesShards, PartsOfAnImageGiveTheSamePositions) {
  const MaxPoolIndices layer("indices");
  const Shape sample{4, 8, 6};
  const at::Tensor images = random_tensor({3, 4, 8, 6}, 1), whole = run(layer, {images});
  for (int degree : {2, 4}) {
    const auto options = layer.sharding_options({&sample, 1}, degree);
    ASSERT_EQ(options.size(), 3u);
    for (const ShardingOption& option : options)
      for (int r = 0; r < degree; ++r)
        EXPECT_TRUE(at::equal(run(layer, {shard_of(images, option.inputs[0], degree, r)}),
                              shard_of(whole, option.output, degree, r)))
            << option.name;
  }
}

/// An image that has the right size already is returned as it is.
TEST(Vision, AdaptivePoolPassesImagesOfTheRightSizeOn) {
  const AdaptiveAvgPool2d pool("pool", {4, 3});
  const at::Tensor image = random_tensor({2, 5, 4, 3}, 1);
  TestCall call;
  EXPECT_TRUE(pool.forward(call, {&image, 1}).is_same(image));
}

std::vector<std::string> option_names(const std::string& name, int degree) {
  const LayerCase c = case_named(name);
  std::vector<std::string> names;
  for (const ShardingOption& option : c.layer->sharding_options(c.inputs, degree)) names.push_back(option.name);
  return names;
}

TEST(Vision, OptionsCarryTheFieldsNames) {
  using ::testing::ElementsAre;
  EXPECT_THAT(option_names("conv_transpose", 4),
              ElementsAre("replicate", "output_channels", "input_channels", "height"));
  EXPECT_THAT(option_names("conv_transpose_overlap", 4), ElementsAre("replicate", "output_channels", "input_channels"));
  EXPECT_THAT(option_names("conv_transpose_groups", 4), ElementsAre("replicate", "groups"));
  EXPECT_THAT(option_names("upsample_nearest", 2), ElementsAre("replicate", "channels", "height"));
  EXPECT_THAT(option_names("upsample_bilinear", 2), ElementsAre("replicate", "channels"));
  EXPECT_THAT(option_names("max_unpool", 4), ElementsAre("replicate", "channels", "height"));
  EXPECT_THAT(option_names("max_unpool_size", 4), ElementsAre("replicate", "channels"));
  EXPECT_THAT(option_names("softmax_channels", 4), ElementsAre("replicate", "height"));
  EXPECT_THAT(option_names("slice", 4), ElementsAre("replicate", "features"));
  EXPECT_THAT(option_names("select_last", 4), ElementsAre("replicate", "features", "sequence"));
  EXPECT_THAT(option_names("pixel_cross_entropy", 4), ElementsAre("replicate", "height"));
}

TEST(Vision, WrongUseIsNamed) {
  auto shape = [](const Layer& layer, std::vector<Shape> inputs) {
    return message_of(Blame::user, [&] { layer.output_shape(inputs); });
  };
  EXPECT_THAT(message_of(Blame::user, [] { ConvTranspose2d("up", {.in = 4, .out = 4, .output_padding = 2}); }),
              HasSubstr("less than the stride"));
  EXPECT_THAT(message_of(Blame::user, [] { ConvTranspose2d("up", {.in = 4, .out = 6, .groups = 4}); }),
              HasSubstr("\"up\""));
  EXPECT_THAT(shape(ConvTranspose2d("up", {.in = 4, .out = 4}), {{3, 2, 2}}), HasSubstr("the 4 input channels"));
  EXPECT_THAT(shape(ConvTranspose2d("up", {.in = 4, .out = 4, .padding = 4}), {{4, 2, 2}}),
              HasSubstr("removes the whole output"));
  EXPECT_THAT(shape(Conv2d("conv", {.in = 3, .out = 4, .kernel = {1, 3}, .dilation = {1, 3}}), {{3, 9, 6}}),
              HasSubstr("1x7 pixels"));
  EXPECT_THAT(message_of(Blame::user,
                         [] {
                           MaxPool2d("pool", {.kernel = {3, 2}, .padding = {1, 2}});
                         }),
              HasSubstr("at most half the kernel"));
  EXPECT_THAT(shape(AvgPool2d("pool", {.kernel = {2, 5}}), {{3, 9, 4}}), HasSubstr("2x5 window"));
  EXPECT_THAT(message_of(Blame::user, [] { Upsample2d("up", {.align_corners = true}); }), HasSubstr("only bilinear"));
  EXPECT_THAT(message_of(Blame::user, [] { Upsample2d("up", {.size = {3, 0}}); }), HasSubstr("must be positive"));
  EXPECT_THAT(message_of(Blame::user, [] { MaxPoolIndices("indices", 17); }), HasSubstr("1 to 256 pixels"));
  EXPECT_THAT(shape(MaxPoolIndices("indices", 3), {{4, 2, 9}}), HasSubstr("smaller than the window"));
  EXPECT_THAT(shape(MaxUnpool2d("unpool"), {{4, 2, 2}, {4, 2, 3}}), HasSubstr("both must be equal"));
  EXPECT_THAT(shape(MaxUnpool2d("unpool", {.size = {3, 4}}), {{4, 2, 2}, {4, 2, 2}}), HasSubstr("at least 4x4"));
  EXPECT_THAT(message_of(Blame::user,
                         [] {
                           run(MaxUnpool2d("unpool"), {at::zeros({1, 1, 2, 2}), at::full({1, 1, 2, 2}, 4, at::kByte)});
                         }),
              HasSubstr("positions 0 to 3"));
  EXPECT_THAT(shape(Slice("part", {.begin = 2, .end = 6}), {{5, 3}}), HasSubstr("within 0 to 5"));
  EXPECT_THAT(shape(Slice("part", {.begin = 0, .end = 1, .dim = 3}), {{5, 3}}), HasSubstr("1 to 2"));
  EXPECT_THAT(shape(SelectPosition("cls", -6), {{5, 3}}), HasSubstr("positions are 0 to 4"));
  EXPECT_THAT(shape(Softmax("softmax", 3), {{5, 3}}), HasSubstr("1 to 2"));
}

}  // namespace
}  // namespace trireme::test_support
