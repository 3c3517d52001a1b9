// Inception-V3 (Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015), with torchvision's
// names and its auxiliary head: a classifier after Mixed_6e, whose loss has weight 0.4 in training.

#include "trireme/layers/adaptive_avg_pool2d.h"
#include "trireme/layers/avg_pool2d.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/global_avg_pool.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/weighted_sum.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

constexpr double kInceptionV3Epsilon = 1e-3;   // of the norms
constexpr double kInceptionV3Deviation = 0.1;  // of initial weights
constexpr double kAuxiliaryWeight = 0.4;

class InceptionV3 {
 public:
  explicit InceptionV3(const ModelSpec& spec) : net_(spec), x_(net_.data()) {}

  void stem() {
    x_ = conv(x_, "Conv2d_1a_3x3", {.out = 32, .kernel = 3, .stride = 2});
    x_ = conv(x_, "Conv2d_2a_3x3", {.out = 32, .kernel = 3});
    x_ = conv(x_, "Conv2d_2b_3x3", {.out = 64, .kernel = 3, .padding = 1});
    x_ = net_.max_pool(x_, "maxpool1", {.kernel = 3, .stride = 2});
    x_ = conv(x_, "Conv2d_3b_1x1", {.out = 80});
    x_ = conv(x_, "Conv2d_4a_3x3", {.out = 192, .kernel = 3});
    x_ = net_.max_pool(x_, "maxpool2", {.kernel = 3, .stride = 2});
  }

  /// torchvision's InceptionA.
  void block_a(const std::string& name, int64_t pool_features) {
    const NodeId one = conv(x_, name + ".branch1x1", {.out = 64});
    const NodeId five = conv(conv(x_, name + ".branch5x5_1", {.out = 48}), name + ".branch5x5_2",
                             {.out = 64, .kernel = 5, .padding = 2});
    NodeId three = conv(x_, name + ".branch3x3dbl_1", {.out = 64});
    three = conv(three, name + ".branch3x3dbl_2", {.out = 96, .kernel = 3, .padding = 1});
    three = conv(three, name + ".branch3x3dbl_3", {.out = 96, .kernel = 3, .padding = 1});
    x_ = net_.concat({one, five, three, pool(name, pool_features)}, name + ".concat");
  }

  /// InceptionB: halves the image.
  void block_b(const std::string& name) {
    const NodeId three = conv(x_, name + ".branch3x3", {.out = 384, .kernel = 3, .stride = 2});
    NodeId twice = conv(x_, name + ".branch3x3dbl_1", {.out = 64});
    twice = conv(twice, name + ".branch3x3dbl_2", {.out = 96, .kernel = 3, .padding = 1});
    twice = conv(twice, name + ".branch3x3dbl_3", {.out = 96, .kernel = 3, .stride = 2});
    x_ = net_.concat({three, twice, net_.max_pool(x_, name + ".branch_pool", {.kernel = 3, .stride = 2})},
                     name + ".concat");
  }

  /// InceptionC: `inner` channels between factorised 7x7 convolutions.
  void block_c(const std::string& name, int64_t inner) {
    const NodeId one = conv(x_, name + ".branch1x1", {.out = 192});
    NodeId seven = conv(x_, name + ".branch7x7_1", {.out = inner});
    seven = conv(row(seven, name + ".branch7x7_2", inner), name + ".branch7x7_3", column(192));
    NodeId twice = conv(x_, name + ".branch7x7dbl_1", {.out = inner});
    twice = conv(twice, name + ".branch7x7dbl_2", column(inner));
    twice = row(twice, name + ".branch7x7dbl_3", inner);
    twice = conv(twice, name + ".branch7x7dbl_4", column(inner));
    twice = row(twice, name + ".branch7x7dbl_5", 192);
    x_ = net_.concat({one, seven, twice, pool(name, 192)}, name + ".concat");
  }

  /// InceptionD: halves the image.
  void block_d(const std::string& name) {
    const NodeId three = conv(conv(x_, name + ".branch3x3_1", {.out = 192}), name + ".branch3x3_2",
                              {.out = 320, .kernel = 3, .stride = 2});
    NodeId seven = row(conv(x_, name + ".branch7x7x3_1", {.out = 192}), name + ".branch7x7x3_2", 192);
    seven = conv(seven, name + ".branch7x7x3_3", column(192));
    seven = conv(seven, name + ".branch7x7x3_4", {.out = 192, .kernel = 3, .stride = 2});
    x_ = net_.concat({three, seven, net_.max_pool(x_, name + ".branch_pool", {.kernel = 3, .stride = 2})},
                     name + ".concat");
  }

  /// InceptionE.
  void block_e(const std::string& name) {
    const NodeId one = conv(x_, name + ".branch1x1", {.out = 320});
    const NodeId three = both(conv(x_, name + ".branch3x3_1", {.out = 384}), name + ".branch3x3_2");
    NodeId twice = conv(x_, name + ".branch3x3dbl_1", {.out = 448});
    twice =
        both(conv(twice, name + ".branch3x3dbl_2", {.out = 384, .kernel = 3, .padding = 1}), name + ".branch3x3dbl_3");
    x_ = net_.concat({one, three, twice, pool(name, 192)}, name + ".concat");
  }

  /// Adds torchvision's InceptionAux at the current end. Call it at most once, before finish.
  void auxiliary_head() {
    NodeId x = net_.builder().layer<AvgPool2d>({x_}, "AuxLogits.pool", AvgPool2dOptions{.kernel = 5, .stride = 3});
    x = conv(x, "AuxLogits.conv0", {.out = 128});
    x = conv(x, "AuxLogits.conv1", {.out = 768, .kernel = 5});
    x = net_.builder().layer<GlobalAvgPool>({x}, "AuxLogits.avgpool");
    auxiliary_ = net_.linear(x, "AuxLogits.fc", net_.spec().classes, {.weight_init = Init::normal(0, 0.001)});
  }

  Model finish(double probability) {
    NodeId x = net_.builder().layer<GlobalAvgPool>({x_}, "avgpool");
    x = net_.dropout(x, "dropout", probability);
    const NodeId logits =
        net_.linear(x, "fc", net_.spec().classes, {.weight_init = Init::normal(0, kInceptionV3Deviation)});
    if (auxiliary_ < 0) return net_.finish(logits);
    ModelBuilder& b = net_.builder();
    const double smoothing = net_.spec().label_smoothing;
    const NodeId main = b.layer<SoftmaxCrossEntropy>({logits, net_.target()}, "loss_main",
                                                     SoftmaxCrossEntropyOptions{.label_smoothing = smoothing});
    const NodeId aux =
        b.layer<SoftmaxCrossEntropy>({auxiliary_, net_.target()}, "loss_auxiliary",
                                     SoftmaxCrossEntropyOptions{.label_smoothing = smoothing, .reports = false});
    const NodeId loss =
        b.layer<WeightedSum>({main, aux}, "loss", std::vector<double>{1, kAuxiliaryWeight}, std::vector<double>{1, 0});
    return b.finish(logits, loss);
  }

 private:
  /// torchvision's BasicConv2d.
  NodeId conv(NodeId x, const std::string& name, Conv2dOptions options) {
    options.bias = false;
    if (!options.weight_init) options.weight_init = Init::normal(0, kInceptionV3Deviation);
    return net_.norm_relu(net_.conv(x, name + ".conv", options), name + ".bn", kInceptionV3Epsilon);
  }
  NodeId row(NodeId x, const std::string& name, int64_t out) {
    return conv(x, name, {.out = out, .kernel = {1, 7}, .padding = {0, 3}});
  }
  static Conv2dOptions column(int64_t out) { return {.out = out, .kernel = {7, 1}, .padding = {3, 0}}; }
  /// A 1x3 and a 3x1 convolution side by side.
  NodeId both(NodeId x, const std::string& name) {
    const NodeId a = conv(x, name + "a", {.out = 384, .kernel = {1, 3}, .padding = {0, 1}});
    const NodeId b = conv(x, name + "b", {.out = 384, .kernel = {3, 1}, .padding = {1, 0}});
    return net_.concat({a, b}, name + ".concat");
  }
  NodeId pool(const std::string& name, int64_t features) {
    const NodeId pooled =
        net_.builder().layer<AvgPool2d>({x_}, name + ".pool", AvgPool2dOptions{.kernel = 3, .stride = 1, .padding = 1});
    return conv(pooled, name + ".branch_pool", {.out = features});
  }

  ImageBuilder net_;
  NodeId x_, auxiliary_ = -1;
};

Model make_inception_v3(const ModelSpec& spec, const ModelOptions& options) {
  InceptionV3 net(spec);
  net.stem();
  net.block_a("Mixed_5b", 32);
  net.block_a("Mixed_5c", 64);
  net.block_a("Mixed_5d", 64);
  net.block_b("Mixed_6a");
  net.block_c("Mixed_6b", 128);
  net.block_c("Mixed_6c", 160);
  net.block_c("Mixed_6d", 160);
  net.block_c("Mixed_6e", 192);
  if (options.at("auxiliary") != 0) net.auxiliary_head();
  net.block_d("Mixed_7a");
  net.block_e("Mixed_7b");
  net.block_e("Mixed_7c");
  return net.finish(options.at("probability"));
}

}  // namespace

/// torchvision's Inception v3. Option auxiliary: with the auxiliary head, whose loss has weight 0.4 in training.
std::vector<NamedModel> inception_v3_models() {
  using enum ModelOption::Kind;
  return {{"inception-v3",
           "torchvision's Inception v3, for images of about 299 pixels (Szegedy et al., 2015)",
           make_inception_v3,
           {{"auxiliary", 1, flag}, {"probability", 0.5, share}}}};
}

}  // namespace trireme
