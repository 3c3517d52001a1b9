// VGG (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014), with
// torchvision's names: the index in features.<i> counts convolutions, norms, ReLUs and pools alike; likewise in
// classifier.<i>.
#include <fmt/format.h>

#include <vector>

#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/flatten.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

constexpr int64_t kPooledSide = 7;
constexpr double kLinearDeviation = 0.01;

/// Number of convolutions in each of the five groups, by depth.
const std::map<int, std::vector<int>>& convolutions() {
  static const std::map<int, std::vector<int>> groups{
      {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
  return groups;
}

NodeId features(ImageBuilder& net, const std::vector<int>& groups, int64_t width, bool batch_norm) {
  NodeId x = net.data();
  int index = 0;
  const auto next = [&] { return fmt::format("features.{}", index++); };
  constexpr int64_t kWidest = 8;  // maximum channels / channels of the first group
  int64_t factor = 1;
  for (int count : groups) {
    for (int i = 0; i < count; ++i) {
      x = net.conv(
          x, next(),
          {.out = width * factor, .kernel = 3, .padding = 1, .he_fan_out = true, .bias_init = Init::constant(0)});
      if (batch_norm) {
        x = net.norm_relu(x, next());
        ++index;  // the index of the ReLU
      } else {
        x = net.relu(x, next());
      }
    }
    x = net.max_pool(x, next(), {});
    factor = std::min(2 * factor, kWidest);
  }
  return x;
}

/// `depth` 11, 13, 16 or 19.
Model make_vgg(const ModelSpec& spec, const ModelOptions& options, int depth, bool batch_norm) {
  ImageBuilder net(spec);
  NodeId x = features(net, convolutions().at(depth), int64_t(options.at("width")), batch_norm);
  x = net.builder().layer<AdaptiveAvgPool2d>({x}, "avgpool", kPooledSide);
  x = net.builder().layer<Flatten>({x}, "flatten");
  const LinearOptions normal{.deviation = kLinearDeviation};
  const auto hidden = int64_t(options.at("hidden"));
  for (int layer : {0, 3}) {  // each followed by its ReLU and its dropout
    x = net.linear(x, fmt::format("classifier.{}", layer), hidden, normal);
    x = net.relu(x, fmt::format("classifier.{}", layer + 1));
    x = net.dropout(x, fmt::format("classifier.{}", layer + 2), options.at("probability"));
  }
  return net.finish(net.linear(x, "classifier.6", spec.classes, normal));
}

template <int depth, bool batch_norm = false>
Model make_vgg_of(const ModelSpec& spec, const ModelOptions& options) {
  return make_vgg(spec, options, depth, batch_norm);
}

}  // namespace

std::vector<NamedModel> vgg_models() {
  const std::vector<ModelOption> options{
      {"width", 64}, {"hidden", 4096}, {"probability", 0.5, ModelOption::Kind::share}};
  const char *usual = "torchvision's VGG (Simonyan and Zisserman, 2014)", *normed = "torchvision's VGG with batch norm";
  return {{"vgg11", usual, make_vgg_of<11>, options},           {"vgg13", usual, make_vgg_of<13>, options},
          {"vgg16", usual, make_vgg_of<16>, options},           {"vgg19", usual, make_vgg_of<19>, options},
          {"vgg11-bn", normed, make_vgg_of<11, true>, options}, {"vgg13-bn", normed, make_vgg_of<13, true>, options},
          {"vgg16-bn", normed, make_vgg_of<16, true>, options}, {"vgg19-bn", normed, make_vgg_of<19, true>, options}};
}

}  // namespace trireme
