// ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", 2015), named as torchvision names it. Norm, residual
// addition and ReLU are one layer. Without batch norm the convolutions stand alone, and additions and ReLUs are layers.
#include <fmt/format.h>

#include "model/layers/add.h"
#include "model/layers/batch_norm.h"
#include "model/layers/conv2d.h"
#include "model/layers/global_avg_pool.h"
#include "model/layers/linear.h"
#include "model/layers/max_pool2d.h"
#include "model/layers/relu.h"
#include "model/layers/softmax_cross_entropy.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

class ResNetBuilder {
 public:
  ResNetBuilder(const ModelSpec& spec, bool batch_norm) : batch_norm_(batch_norm), b_(spec.name) {
    end_ = b_.input("data", spec.sample_shape);
    target_ = b_.input("target", {});
  }

  void conv(const std::string& name, int64_t out, int64_t kernel, int64_t stride) {
    end_ = conv_from(end_, name, out, kernel, stride);
  }
  void norm_relu() { end_ = norm(end_, "bn1", "relu", {.relu = true}); }
  void max_pool(const std::string& name) {
    end_ = b_.layer<MaxPool2d>({end_}, name, MaxPool2dOptions{.kernel = 3, .stride = 2, .padding = 1});
  }

  /// torchvision's BasicBlock.
  void block(const std::string& name, int64_t out, int64_t stride) {
    NodeId input = end_, shortcut = input;
    NodeId x = norm(conv_from(input, name + ".conv1", out, 3, stride), name + ".bn1", name + ".relu1", {.relu = true});
    x = conv_from(x, name + ".conv2", out, 3, 1);
    if (stride != 1 || channels(input) != out)
      shortcut = norm(conv_from(input, name + ".downsample.0", out, 1, stride), name + ".downsample.1", "", {});
    if (batch_norm_)
      end_ = b_.layer<BatchNorm>({x, shortcut}, name + ".bn2", out, BatchNormOptions{.relu = true, .residual = true});
    else
      end_ = b_.layer<Add>({x, shortcut}, name + ".add", /*relu=*/true);
  }

  Model finish(int64_t classes) {
    end_ = b_.layer<GlobalAvgPool>({end_}, "avgpool");
    NodeId logits = b_.layer<Linear>({end_}, "fc", channels(end_), classes);
    NodeId loss = b_.layer<SoftmaxCrossEntropy>({logits, target_}, "loss");
    return b_.finish(logits, loss);
  }

 private:
  int64_t channels(NodeId id) const { return b_.shape(id).empty() ? 1 : b_.shape(id)[0]; }

  NodeId conv_from(NodeId input, const std::string& name, int64_t out, int64_t kernel, int64_t stride) {
    return b_.layer<Conv2d>({input}, name, Conv2dOptions{.in = channels(input), .out = out, .kernel = kernel,
                                                         .stride = stride, .padding = kernel / 2, .bias = false,
                                                         .he_fan_out = true});
  }
  /// The norm layer `name`, or without batch norm the ReLU `relu` where there is to be one.
  NodeId norm(NodeId input, const std::string& name, const std::string& relu, BatchNormOptions options) {
    if (batch_norm_) return b_.layer<BatchNorm>({input}, name, channels(input), options);
    return options.relu ? b_.layer<Relu>({input}, relu) : input;
  }

  bool batch_norm_;
  ModelBuilder b_;
  NodeId end_, target_;
};

Model finish_resnet18(ResNetBuilder& net, int64_t width, int64_t classes) {
  constexpr int kGroups = 4, kBlocks = 2;
  for (int group = 0; group < kGroups; ++group)
    for (int i = 0; i < kBlocks; ++i)
      net.block(fmt::format("layer{}.{}", group + 1, i), width << group, group > 0 && i == 0 ? 2 : 1);
  return net.finish(classes);
}

}  // namespace

Model make_cifar_resnet18(const ModelSpec& spec, const ModelOptions& options) {
  int64_t width = int64_t(options.at("width"));
  ResNetBuilder net(spec, options.at("batch_norm") != 0);
  net.conv("conv1", width, 3, 1);
  net.norm_relu();
  return finish_resnet18(net, width, spec.classes);
}

Model make_resnet18(const ModelSpec& spec, const ModelOptions& options) {
  int64_t width = int64_t(options.at("width"));
  ResNetBuilder net(spec, options.at("batch_norm") != 0);
  net.conv("conv1", width, 7, 2);
  net.norm_relu();
  net.max_pool("maxpool");
  return finish_resnet18(net, width, spec.classes);
}

}  // namespace trireme
