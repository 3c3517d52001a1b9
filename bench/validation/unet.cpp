#include "validation/unet.h"

#include <fmt/format.h>

#include <numeric>

#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/max_pool2d.h"
#include "validation/shape_layer.h"

namespace trireme::validation {
namespace {

constexpr int kDepth = 5;
constexpr int64_t kColours = 3;
constexpr double kNormFlops = 8;  // per element: mean, variance, normalised

class UNetBuilder {
 public:
  UNetBuilder(int convolutions, int64_t side) : convolutions_(convolutions), b_("torchgpipe-unet") {
    end_ = b_.input("data", {kColours, side, side});
    target_ = b_.input("target", {1});
  }

  void level_down(int level, int64_t out, std::vector<NodeId>& skips) {
    const std::string name = fmt::format("down.{}", level);
    convolve(name, out, out);
    modules_.push_back(-1);  // the stash of a skip connection
    skips.push_back(end_);
    take(b_.layer<MaxPool2d>({end_}, name + ".pool"));
  }

  void bottom(int64_t inner, int64_t out) { convolve("bottom", inner, out); }

  void level_up(int level, int64_t out, NodeId skip) {
    const std::string name = fmt::format("up.{}", level);
    const Shape& shape = b_.shape(end_);
    take(b_.layer<ShapeLayer>({end_}, name + ".upsample",
                              elementwise("upsample", {shape[0], 2 * shape[1], 2 * shape[2]})));
    take(b_.layer<Concat>({skip, end_}, name + ".concat"));
    convolve(name, out, out);
  }

  SequentialModel finish() {
    take(b_.layer<Conv2d>({end_}, "head", Conv2dOptions{.in = b_.shape(end_)[0], .out = 1}));
    const NodeId loss =
        b_.layer<ShapeLayer>({end_, target_}, "loss", ShapeLayer::Facts{.kind = "operator", .output = {}});
    return {b_.finish(end_, loss), modules_};
  }

 private:
  void convolve(const std::string& name, int64_t inner, int64_t out) {
    for (int i = 0; i < convolutions_; ++i) {
      const std::string at = fmt::format("{}.{}", name, i);
      const int64_t channels = i + 1 < convolutions_ ? inner : out;
      take(b_.layer<Conv2d>({end_}, at + ".conv",
                            Conv2dOptions{.in = b_.shape(end_)[0], .out = channels, .kernel = 3, .padding = 1}));
      take(b_.layer<ShapeLayer>({end_}, at + ".dropout", elementwise("dropout2d", b_.shape(end_))));
      take(b_.layer<ShapeLayer>({end_}, at + ".norm", elementwise("instance_norm", b_.shape(end_), kNormFlops)));
      take(b_.layer<ShapeLayer>({end_}, at + ".leaky_relu", elementwise("leaky_relu", b_.shape(end_))));
    }
  }
  void take(NodeId node) {
    end_ = node;
    modules_.push_back(node);
  }

  const int convolutions_;
  ModelBuilder b_;
  NodeId end_, target_;
  std::vector<NodeId> modules_;
};

}  // namespace

SequentialModel torchgpipe_unet(int convolutions, int64_t channels, int64_t side) {
  UNetBuilder net(convolutions, side);
  std::vector<NodeId> skips;
  for (int level = 0; level < kDepth; ++level) net.level_down(level, channels << level, skips);
  net.bottom(channels << kDepth, channels << (kDepth - 1));
  for (int level = kDepth - 1; level >= 0; --level) net.level_up(level, (channels << level) / 2, skips[size_t(level)]);
  return net.finish();
}

std::vector<int> stages_of(const SequentialModel& net, const std::vector<int>& balance) {
  check_internal(std::accumulate(balance.begin(), balance.end(), 0) == int(net.modules.size()),
                 "a balance covers all modules");
  std::vector<int> stages(net.model.nodes().size(), int(balance.size()) - 1);
  size_t module = 0;
  for (size_t stage = 0; stage < balance.size(); ++stage)
    for (int i = 0; i < balance[stage]; ++i, ++module)
      if (net.modules[module] >= 0) stages[size_t(net.modules[module])] = int(stage);
  return stages;
}

}  // namespace trireme::validation
