// Networks for segmentation. U-Net (Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image
// Segmentation", 2015), with batch norm and padded convolutions, so that the output has the size of the image for any
// image size. SegNet (Badrinarayanan, Kendall, Cipolla, "SegNet: A Deep Convolutional Encoder-Decoder Architecture for
// Image Segmentation", 2015).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trireme/error.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/max_pool_indices.h"
#include "trireme/layers/max_unpool2d.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

/// Adds a 3x3 convolution with norm and ReLU: "<name>.conv<i>", "<name>.bn<i>".
NodeId convolve(ImageBuilder& net, NodeId x, const std::string& name, int i, int64_t out) {
  x = net.conv(x, fmt::format("{}.conv{}", name, i),
               {.out = out, .kernel = 3, .padding = 1, .bias = false, .he_fan_out = true});
  return net.norm_relu(x, fmt::format("{}.bn{}", name, i));
}

NodeId twice(ImageBuilder& net, NodeId x, const std::string& name, int64_t out) {
  return convolve(net, convolve(net, x, name, 1, out), name, 2, out);
}

Model make_unet(const ModelSpec& spec, const ModelOptions& options) {
  const auto width = int64_t(options.at("width")), depth = int64_t(options.at("depth"));
  ImageBuilder net(spec);
  constexpr int64_t kDeepest = 40;  // no image has 2^40 rows or columns
  const int64_t least = int64_t{1} << std::min(depth, kDeepest);
  if (net.height(net.data()) < least || net.width(net.data()) < least)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("images of {}x{}", net.height(net.data()), net.width(net.data())),
               .why = fmt::format("they are halved {} times: height and width must be at least {}", depth, least),
               .next = "lower option \"depth\" or use larger images"});
  std::vector<NodeId> skips;
  NodeId x = net.data();
  for (int64_t level = 0; level < depth; ++level) {
    x = twice(net, x, fmt::format("down.{}", level), width << level);
    skips.push_back(x);
    x = net.max_pool(x, fmt::format("down.{}.pool", level), {});
  }
  x = twice(net, x, "bottom", width << depth);
  for (int64_t level = depth - 1; level >= 0; --level) {
    const std::string name = fmt::format("up.{}", level);
    const NodeId skip = skips[size_t(level)];
    // halving an odd height or width loses a row or column: it is restored here, as with output_size in PyTorch
    const Size2d lost{net.height(skip) - 2 * net.height(x), net.width(skip) - 2 * net.width(x)};
    x = net.builder().layer<ConvTranspose2d>(
        {x}, name + ".up",
        ConvTranspose2dOptions{.in = net.channels(x), .out = width << level, .output_padding = lost});
    x = twice(net, net.concat({skip, x}, name + ".concat"), name, width << level);
  }
  return net.finish(net.conv(x, "head", {.out = spec.classes}));
}

Model make_segnet(const ModelSpec& spec, const ModelOptions& options) {
  const auto width = int64_t(options.at("width"));
  // VGG-16's groups: number of convolutions, and channels / channels of the first group
  struct Group {
    int convolutions;
    int64_t factor;
  };
  constexpr Group kGroups[] = {{2, 1}, {2, 2}, {3, 4}, {3, 8}, {3, 8}};
  constexpr int kDepth = 5;
  struct Pooled {
    NodeId indices;
    Size2d size;  ///< before the pool
  };
  ImageBuilder net(spec);
  std::vector<Pooled> pooled;
  NodeId x = net.data();
  for (int g = 0; g < kDepth; ++g) {
    const std::string name = fmt::format("encoder.{}", g);
    for (int i = 1; i <= kGroups[g].convolutions; ++i) x = convolve(net, x, name, i, width * kGroups[g].factor);
    const Size2d size{net.height(x), net.width(x)};
    pooled.push_back({net.builder().layer<MaxPoolIndices>({x}, name + ".indices"), size});
    x = net.max_pool(x, name + ".pool", {});
  }
  for (int g = kDepth - 1; g >= 0; --g) {
    const std::string name = fmt::format("decoder.{}", g);
    const Pooled& from = pooled[size_t(g)];
    x = net.builder().layer<MaxUnpool2d>({x, from.indices}, name + ".unpool", MaxUnpool2dOptions{.size = from.size});
    const int last = kGroups[g].convolutions;
    for (int i = 1; i < last; ++i) x = convolve(net, x, name, i, width * kGroups[g].factor);
    // the last convolution has the channels of the previous group; in the first group the head replaces it
    if (g > 0) x = convolve(net, x, name, last, width * kGroups[g - 1].factor);
  }
  return net.finish(net.conv(x, "head", {.out = spec.classes, .kernel = 3, .padding = 1}));
}

}  // namespace

/// Option depth of unet: how often images are halved. An odd height or width is restored as with output_size in
/// PyTorch's ConvTranspose2d.
std::vector<NamedModel> segmentation_models() {
  const ModelUse use{{LearningTask::segmentation}};
  return {{"unet",
           "an encoder and a decoder with skip connections (Ronneberger et al., 2015)",
           make_unet,
           {{"width", 64}, {"depth", 4, ModelOption::Kind::count}},
           use},
          {"segnet",
           "a decoder that unpools where the encoder pooled (Badrinarayanan et al., 2015)",
           make_segnet,
           {{"width", 64}},
           use}};
}

}  // namespace trireme
