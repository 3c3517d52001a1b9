// A small GoogLeNet (Szegedy et al., "Going Deeper with Convolutions", 2015) for small images: one convolution as stem,
// the Inception blocks 3a and 3b with the paper's channels at width 64, global pooling. Names as in torchvision's
// GoogLeNet; the third branch has the paper's 5x5 convolution, where torchvision has a 3x3. The four branches of a
// block are independent of each other.
#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/batch_norm.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/global_avg_pool.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/relu.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

constexpr double kInceptionEpsilon = 1e-3;  // of torchvision's GoogLeNet
constexpr int64_t kWidthUnit = 4;           // the narrowest convolution has width / 4 channels

/// Output channels of a block's convolutions: the columns of the paper's table 1.
struct InceptionChannels {
  int64_t one, reduce3, three, reduce5, five, pool;
};

class InceptionBuilder {
 public:
  InceptionBuilder(const ModelSpec& spec, bool batch_norm) : spec_(spec), batch_norm_(batch_norm), b_(spec.name) {
    end_ = b_.input("data", spec.sample_shape);
    target_ = b_.input("target", spec.target_shape);
  }

  void conv(const std::string& name, int64_t out, int64_t kernel) { end_ = conv_from(end_, name, out, kernel); }
  void shrink(const std::string& name) { end_ = max_pool(end_, name, 2); }

  void block(const std::string& name, const InceptionChannels& c) {
    const NodeId input = end_;
    const NodeId one = conv_from(input, name + ".branch1", c.one, 1);
    const NodeId three =
        conv_from(conv_from(input, name + ".branch2.0", c.reduce3, 1), name + ".branch2.1", c.three, 3);
    const NodeId five = conv_from(conv_from(input, name + ".branch3.0", c.reduce5, 1), name + ".branch3.1", c.five, 5);
    const NodeId pool = conv_from(max_pool(input, name + ".branch4.0", 1), name + ".branch4.1", c.pool, 1);
    end_ = b_.layer<Concat>({one, three, five, pool}, name + ".concat");
  }

  Model finish() {
    end_ = b_.layer<GlobalAvgPool>({end_}, "avgpool");
    NodeId logits = b_.layer<Linear>({end_}, "fc", channels(end_), spec_.classes);
    return finish_with_loss(b_, logits, target_, spec_);
  }

 private:
  int64_t channels(NodeId id) const { return b_.shape(id).empty() ? 1 : b_.shape(id)[0]; }

  /// torchvision's BasicConv2d. Without batch norm the convolution has a bias, as in the paper.
  NodeId conv_from(NodeId input, const std::string& name, int64_t out, int64_t kernel) {
    NodeId x = b_.layer<Conv2d>({input}, name + ".conv",
                                Conv2dOptions{.in = channels(input),
                                              .out = out,
                                              .kernel = kernel,
                                              .padding = kernel / 2,
                                              .bias = !batch_norm_,
                                              .he_fan_out = true});
    if (batch_norm_)
      return b_.layer<BatchNorm>({x}, name + ".bn", out, BatchNormOptions{.relu = true, .epsilon = kInceptionEpsilon});
    return b_.layer<Relu>({x}, name + ".relu");
  }

  NodeId max_pool(NodeId input, const std::string& name, int64_t stride) {
    return b_.layer<MaxPool2d>({input}, name, MaxPool2dOptions{.kernel = 3, .stride = stride, .padding = 1});
  }

  const ModelSpec& spec_;
  bool batch_norm_;
  ModelBuilder b_;
  NodeId end_, target_;
};

Model make_inception(const ModelSpec& spec, const ModelOptions& options) {
  const auto w = int64_t(options.at("width"));
  if (w % kWidthUnit != 0)
    fail_user({.where = "model \"inception\"",
               .what = fmt::format("option \"width\" = {}", w),
               .why = fmt::format("branches have fractions of it: it must be a multiple of {}", kWidthUnit),
               .next = "correct it; 64 gives the paper's channels"});
  InceptionBuilder net(spec, options.at("batch_norm") != 0);
  net.conv("conv1", w, 3);
  net.shrink("maxpool1");
  net.block("inception3a",
            {.one = w, .reduce3 = w * 3 / 2, .three = 2 * w, .reduce5 = w / 4, .five = w / 2, .pool = w / 2});
  net.shrink("maxpool3");
  net.block("inception3b",
            {.one = 2 * w, .reduce3 = 2 * w, .three = 3 * w, .reduce5 = w / 2, .five = w * 3 / 2, .pool = w});
  return net.finish();
}

}  // namespace

/// Option width: a multiple of 4.
std::vector<NamedModel> inception_models() {
  return {{"inception",
           "a small GoogLeNet of two Inception blocks",
           make_inception,
           {{"batch_norm", 1, ModelOption::Kind::flag}, {"width", 64}}}};
}

}  // namespace trireme
