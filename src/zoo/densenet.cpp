// DenseNet-121 (Huang et al., "Densely Connected Convolutional Networks", 2016), with torchvision's names. Every layer
// reads the outputs of all earlier layers of its block.
#include <fmt/format.h>

#include <cmath>

#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/global_avg_pool.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

constexpr int kBlockLayers[] = {6, 12, 24, 16};
constexpr int64_t kBottleneck = 4;  // channels of a layer's first convolution / growth

NodeId convolve(ImageBuilder& net, NodeId x, const std::string& name, int64_t out, int64_t kernel, int64_t stride) {
  const double fan_in = double(net.channels(x) * kernel * kernel);
  return net.conv(x, name,
                  {.out = out,
                   .kernel = kernel,
                   .stride = stride,
                   .padding = kernel / 2,
                   .bias = false,
                   .weight_init = Init::normal(0, std::sqrt(2 / fan_in))});  // He et al., 2015, "fan in"
}

NodeId dense_layer(ImageBuilder& net, NodeId x, const std::string& name, int64_t growth, double probability) {
  NodeId y = convolve(net, net.norm_relu(x, name + ".norm1"), name + ".conv1", kBottleneck * growth, 1, 1);
  y = convolve(net, net.norm_relu(y, name + ".norm2"), name + ".conv2", growth, 3, 1);
  return net.concat({x, net.dropout(y, name + ".dropout", probability)}, name + ".concat");
}

Model make_densenet121(const ModelSpec& spec, const ModelOptions& options) {
  const auto growth = int64_t(options.at("growth"));
  ImageBuilder net(spec);
  NodeId x = convolve(net, net.data(), "features.conv0", 2 * growth, 7, 2);
  x = net.max_pool(net.norm_relu(x, "features.norm0"), "features.pool0", {.kernel = 3, .stride = 2, .padding = 1});
  for (int block = 1; block <= 4; ++block) {
    for (int layer = 1; layer <= kBlockLayers[block - 1]; ++layer)
      x = dense_layer(net, x, fmt::format("features.denseblock{}.denselayer{}", block, layer), growth,
                      options.at("probability"));
    if (block == 4) break;
    const std::string name = fmt::format("features.transition{}", block);
    x = convolve(net, net.norm_relu(x, name + ".norm"), name + ".conv", net.channels(x) / 2, 1, 1);
    x = net.builder().layer<AvgPool2d>({x}, name + ".pool");
  }
  x = net.builder().layer<GlobalAvgPool>({net.norm_relu(x, "features.norm5")}, "avgpool");
  return net.finish(net.linear(x, "classifier", spec.classes, {.bias_init = Init::constant(0)}));
}

}  // namespace

std::vector<NamedModel> densenet_models() {
  using enum ModelOption::Kind;
  return {{"densenet121",
           "torchvision's DenseNet of 121 layers (Huang et al., 2016)",
           make_densenet121,
           {{"growth", 32}, {"probability", 0, share}}}};
}

}  // namespace trireme
