// Compares the matrix-product form of a convolution with libtorch's direct one, on random shapes.
#include "model/layers/conv2d_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "test_call.h"

namespace trireme {
namespace {

struct Case {
  int64_t n, in, out, height, width, kernel_y, kernel_x, stride_y, stride_x, padding_y, padding_x;
};

Case random_case(std::mt19937& random) {
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  Case c{pick(1, 4), pick(1, 6), pick(1, 6), pick(1, 6), pick(1, 6), pick(1, 5),
         pick(1, 5), pick(1, 3), pick(1, 3), pick(0, 2), pick(0, 2)};
  while (c.height + 2 * c.padding_y < c.kernel_y) ++c.padding_y;
  while (c.width + 2 * c.padding_x < c.kernel_x) ++c.padding_x;
  return c;
}

at::Tensor layout(const at::Tensor& t) { return t.contiguous(at::MemoryFormat::ChannelsLast); }

/// Compares the output and all gradients with at::convolution and its backward; returns the largest difference.
double largest_difference(const Case& c, at::ScalarType type, bool accumulate) {
  auto options = at::TensorOptions().dtype(type);
  at::Tensor input = layout(at::randn({c.n, c.in, c.height, c.width}, options));
  at::Tensor weight = layout(at::randn({c.out, c.in, c.kernel_y, c.kernel_x}, options));
  at::Tensor bias = at::randn({c.out}, options);
  // Contiguous order, because oneDNN 2.6 overruns its memory on some of these shapes in channels_last order.
  const at::Tensor plain_input = input.contiguous(), plain_weight = weight.contiguous();
  at::Tensor expected = at::convolution(plain_input, plain_weight, bias, {c.stride_y, c.stride_x},
                                        {c.padding_y, c.padding_x}, {1, 1}, false, {0, 0}, 1);
  at::Tensor gradient = layout(at::randn(expected.sizes(), options));
  auto [gx, gw, gb] = at::convolution_backward(
      gradient.contiguous(), plain_input, plain_weight, at::OptionalIntArrayRef(), {c.stride_y, c.stride_x},
      {c.padding_y, c.padding_x}, {1, 1}, false, {0, 0}, 1, {true, true, false});
  ConvolutionProduct product(input, weight, {c.stride_y, c.stride_x}, c.padding_y, c.padding_x);
  double worst = (product.forward(bias) - expected).abs().max().item<double>();
  worst = std::max(worst, (product.input_gradient(gradient) - gx).abs().max().item<double>());

  test_support::TestCall call;
  call.parameters = {weight};
  product.weight_gradient(gradient, call, 0);
  if (accumulate) product.weight_gradient(gradient, call, 0);
  return std::max(worst, (call.gradients.at(0) - gw * (accumulate ? 2 : 1)).abs().max().item<double>());
}

TEST(ConvolutionProduct, equals_direct_convolution_on_random_shapes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  at::manual_seed(seed);
  for (int i = 0; i < 200; ++i) {
    Case c = random_case(random);
    SCOPED_TRACE(::testing::Message() << "case " << i << ": n " << c.n << " in " << c.in << " out " << c.out << " "
                                      << c.height << "x" << c.width << " kernel " << c.kernel_y << "x" << c.kernel_x
                                      << " stride " << c.stride_y << "x" << c.stride_x << " padding " << c.padding_y
                                      << "x" << c.padding_x);
    ASSERT_LT(largest_difference(c, at::kDouble, i % 2), 1e-10);
    ASSERT_LT(largest_difference(c, at::kFloat, i % 2), 1e-3);
  }
}

TEST(ConvolutionProduct, taps_that_only_see_padding_are_left_out_and_have_no_gradient) {
  Case c{3, 2, 4, 1, 1, 3, 3, 1, 1, 1, 1};
  EXPECT_LT(largest_difference(c, at::kDouble, false), 1e-12);
  at::Tensor input = layout(at::randn({c.n, c.in, 1, 1})), weight = layout(at::randn({c.out, c.in, 3, 3}));
  ConvolutionProduct product(input, weight, 1, 1, 1);
  EXPECT_TRUE(product.pays());
  // Only the centre of the kernel lies on the single pixel.
  at::Tensor by_hand = at::einsum("nc,oc->no", {input.view({c.n, c.in}), weight.select(3, 1).select(2, 1)});
  EXPECT_LT((product.forward({}).view({c.n, c.out}) - by_hand).abs().max().item<double>(), 1e-5);
}

TEST(ConvolutionProduct, bfloat16_agrees_with_float_within_its_rounding) {
  Case c{8, 16, 24, 4, 4, 3, 3, 1, 1, 1, 1};
  at::Tensor input = layout(at::randn({c.n, c.in, c.height, c.width})), weight = layout(at::randn({c.out, c.in, 3, 3}));
  at::Tensor gradient = layout(at::randn({c.n, c.out, c.height, c.width}));
  auto narrow = [](const at::Tensor& t) { return layout(t.to(at::kBFloat16)); };
  ConvolutionProduct wide(layout(narrow(input).to(at::kFloat)), layout(narrow(weight).to(at::kFloat)), 1, 1, 1);
  ConvolutionProduct product(narrow(input), narrow(weight), 1, 1, 1);
  const at::Tensor wide_gradient = layout(narrow(gradient).to(at::kFloat));
  auto relative = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a.to(at::kFloat) - b).abs().max() / b.abs().max()).item<double>();
  };
  EXPECT_LT(relative(product.forward({}), wide.forward({})), 0.01);
  // Nine products are rounded to bfloat16 before they are added.
  EXPECT_LT(relative(product.input_gradient(narrow(gradient)), wide.input_gradient(wide_gradient)), 0.02);
}

TEST(ConvolutionProduct, the_choice_depends_on_shapes_only) {
  auto pays = [](int64_t out, int64_t pixels, at::ScalarType type) {
    return ConvolutionProduct(layout(at::zeros({1, 4, pixels, 1}, type)), layout(at::zeros({out, 4, 1, 1}, type)), 1, 0,
                              0)
        .pays();
  };
  EXPECT_TRUE(pays(512, 1024, at::kBFloat16));
  EXPECT_FALSE(pays(64, 4096, at::kBFloat16));
  EXPECT_FALSE(pays(512, 1024, at::kFloat));
  EXPECT_TRUE(pays(512, 256, at::kFloat));
}

TEST(ConvolutionProduct, stands_in_where_onednn_overruns_its_memory) {
  auto pays = [](int64_t channels, int64_t kernel, Size2d stride) {
    return ConvolutionProduct(layout(at::zeros({8, channels, 8, 8})), layout(at::zeros({8, channels, kernel, kernel})),
                              stride, kernel / 2, kernel / 2)
        .pays();
  };
  EXPECT_TRUE(pays(4, 1, 2));
  EXPECT_TRUE(pays(15, 1, 3));
  EXPECT_TRUE(pays(4, 1, {1, 2}));
  EXPECT_TRUE(pays(4, 1, {2, 1}));
  EXPECT_FALSE(pays(16, 1, 2));
  EXPECT_FALSE(pays(4, 1, 1));
  EXPECT_FALSE(pays(4, 3, 2));
}

}  // namespace
}  // namespace trireme
