// ResNets (He et al., "Deep Residual Learning for Image Recognition", 2015) and ResNeXt-50 (Xie et al., "Aggregated
// Residual Transformations for Deep Neural Networks", 2017), with torchvision's names. Norm, residual addition and ReLU
// are one layer. Without batch norm, additions and ReLUs are separate layers.
#include <fmt/format.h>

#include <vector>

#include "trireme/error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/global_avg_pool.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

constexpr int64_t kExpansion = 4;          // output channels / inner channels of a bottleneck block
constexpr int64_t kWidthOfBaseWidth = 64;  // width at which a group has `group_width` channels

class ResNetBuilder {
 public:
  ResNetBuilder(const ModelSpec& spec, bool batch_norm) : batch_norm_(batch_norm), net_(spec), end_(net_.data()) {}

  /// Adds the paper's stem for ImageNet, or one 3x3 convolution for small images.
  void stem(int64_t width, bool small_images) {
    end_ = norm(conv(end_, "conv1", width, small_images ? 3 : 7, small_images ? 1 : 2), "bn1", "relu", {.relu = true});
    if (!small_images) end_ = net_.max_pool(end_, "maxpool", {.kernel = 3, .stride = 2, .padding = 1});
  }

  /// torchvision's BasicBlock.
  void basic_block(const std::string& name, int64_t out, int64_t stride) {
    const NodeId input = end_;
    NodeId x = norm(conv(input, name + ".conv1", out, 3, stride), name + ".bn1", name + ".relu1", {.relu = true});
    x = conv(x, name + ".conv2", out, 3, 1);
    join(x, shortcut(input, name, out, stride), name, "bn2");
  }

  /// torchvision's Bottleneck; with groups: ResNeXt's.
  void bottleneck(const std::string& name, int64_t width, int64_t stride, int64_t groups, int64_t group_width) {
    const NodeId input = end_;
    const int64_t inner = width * group_width / kWidthOfBaseWidth * groups, out = width * kExpansion;
    NodeId x = norm(conv(input, name + ".conv1", inner, 1, 1), name + ".bn1", name + ".relu1", {.relu = true});
    x = norm(conv(x, name + ".conv2", inner, 3, stride, groups), name + ".bn2", name + ".relu2", {.relu = true});
    x = conv(x, name + ".conv3", out, 1, 1);
    join(x, shortcut(input, name, out, stride), name, "bn3");
  }

  Model finish() {
    end_ = net_.builder().layer<GlobalAvgPool>({end_}, "avgpool");
    return net_.finish(net_.linear(end_, "fc", net_.spec().classes));
  }

 private:
  NodeId conv(NodeId input, const std::string& name, int64_t out, int64_t kernel, int64_t stride, int64_t groups = 1) {
    return net_.conv(input, name,
                     {.out = out,
                      .kernel = kernel,
                      .stride = stride,
                      .padding = kernel / 2,
                      .groups = groups,
                      .bias = false,
                      .he_fan_out = true});
  }
  /// Adds the norm layer `name`; without batch norm the ReLU `relu`, if options.relu.
  NodeId norm(NodeId input, const std::string& name, const std::string& relu, BatchNormOptions options) {
    if (batch_norm_) return net_.norm(input, name, options);
    return options.relu ? net_.relu(input, relu) : input;
  }
  NodeId shortcut(NodeId input, const std::string& name, int64_t out, int64_t stride) {
    if (stride == 1 && net_.channels(input) == out) return input;
    return norm(conv(input, name + ".downsample.0", out, 1, stride), name + ".downsample.1", "", {});
  }
  /// Adds the end of a block, whose last norm is `norm`. The shortcut's layers precede it, as in torchvision.
  void join(NodeId x, NodeId shortcut, const std::string& name, const std::string& norm) {
    ModelBuilder& b = net_.builder();
    end_ = batch_norm_ ? b.layer<BatchNorm>({x, shortcut}, name + "." + norm, net_.channels(x),
                                            BatchNormOptions{.relu = true, .residual = true})
                       : b.layer<Add>({x, shortcut}, name + ".add", /*relu=*/true);
  }

  bool batch_norm_;
  ImageBuilder net_;
  NodeId end_;
};

struct ResNetShape {
  std::vector<int> blocks;  ///< blocks in each of the four groups
  bool bottleneck;
};

const std::map<int, ResNetShape>& shapes() {
  static const std::map<int, ResNetShape> all{{18, {{2, 2, 2, 2}, false}},
                                              {34, {{3, 4, 6, 3}, false}},
                                              {50, {{3, 4, 6, 3}, true}},
                                              {101, {{3, 4, 23, 3}, true}}};
  return all;
}

/// Which ResNet.
struct ResNetKind {
  int depth = 18;             ///< 18, 34, 50, 101
  bool small_images = false;  ///< a 3x3 stem without pool, for CIFAR
  /// Of bottleneck blocks: 32 and 4 give ResNeXt-50 32x4d.
  int64_t groups = 1, group_width = 64;
};

Model make_resnet(const ModelSpec& spec, const ModelOptions& options, const ResNetKind& kind) {
  const auto width = int64_t(options.at("width"));
  const ResNetShape& shape = shapes().at(kind.depth);
  if (width * kind.group_width % kWidthOfBaseWidth != 0)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("option \"width\" = {}", width),
               .why = fmt::format("a group would have {} / {} channels", width * kind.group_width, kWidthOfBaseWidth),
               .next = fmt::format("use a multiple of {}", kWidthOfBaseWidth / kind.group_width)});
  ResNetBuilder net(spec, options.at("batch_norm") != 0);
  net.stem(width, kind.small_images);
  for (int group = 0; group < int(shape.blocks.size()); ++group)
    for (int i = 0; i < shape.blocks[size_t(group)]; ++i) {
      const std::string name = fmt::format("layer{}.{}", group + 1, i);
      const int64_t stride = group > 0 && i == 0 ? 2 : 1;
      if (shape.bottleneck) net.bottleneck(name, width << group, stride, kind.groups, kind.group_width);
      else net.basic_block(name, width << group, stride);
    }
  return net.finish();
}

template <int depth, bool small_images = false, int groups = 1, int group_width = 64>
Model make_resnet_of(const ModelSpec& spec, const ModelOptions& options) {
  return make_resnet(spec, options, {depth, small_images, groups, group_width});
}

}  // namespace

/// torchvision's ResNets, including parameter names. cifar-...: with a 3x3 stem and no max pool, for small images.
/// Options: width: the channels of the first blocks; batch_norm = 0: only convolutions, additions and ReLUs.
std::vector<NamedModel> resnet_models() {
  const std::vector<ModelOption> options{{"batch_norm", 1, ModelOption::Kind::flag}, {"width", 64}};
  const char *usual = "torchvision's ResNet (He et al., 2015)",
             *small = "ResNet with a 3x3 stem and no max pool, for small images";
  return {
      {"cifar-resnet18", small, make_resnet_of<18, true>, options},
      {"cifar-resnet34", small, make_resnet_of<34, true>, options},
      {"cifar-resnet50", small, make_resnet_of<50, true>, options},
      {"cifar-resnet101", small, make_resnet_of<101, true>, options},
      {"resnet18", usual, make_resnet_of<18>, options},
      {"resnet34", usual, make_resnet_of<34>, options},
      {"resnet50", usual, make_resnet_of<50>, options},
      {"resnet101", usual, make_resnet_of<101>, options},
      {"resnext50", "torchvision's ResNeXt-50 32x4d (Xie et al., 2017)", make_resnet_of<50, false, 32, 4>, options}};
}

}  // namespace trireme
