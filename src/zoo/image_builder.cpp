#include "zoo/image_builder.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/relu.h"
#include "trireme/zoo.h"

namespace trireme {

ImageBuilder::ImageBuilder(const ModelSpec& spec) : spec_(spec), b_(spec.name) {
  if (spec.sample_shape.size() != 3)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("samples of shape {}", to_string(spec.sample_shape)),
               .why = "it reads images [channels, height, width]",
               .next = "use another data set or model"});
  data_ = b_.input("data", spec.sample_shape);
  target_ = b_.input("target", spec.target_shape);
}

NodeId ImageBuilder::conv(NodeId x, const std::string& name, Conv2dOptions options) {
  options.in = channels(x);
  return b_.layer<Conv2d>({x}, name, options);
}

NodeId ImageBuilder::norm(NodeId x, const std::string& name, BatchNormOptions options) {
  return b_.layer<BatchNorm>({x}, name, channels(x), options);
}

NodeId ImageBuilder::norm_relu(NodeId x, const std::string& name, double epsilon) {
  return norm(x, name, {.relu = true, .epsilon = epsilon});
}

NodeId ImageBuilder::relu(NodeId x, const std::string& name) { return b_.layer<Relu>({x}, name); }

NodeId ImageBuilder::max_pool(NodeId x, const std::string& name, MaxPool2dOptions options) {
  return b_.layer<MaxPool2d>({x}, name, options);
}

NodeId ImageBuilder::concat(std::vector<NodeId> inputs, const std::string& name) {
  return b_.layer<Concat>(std::move(inputs), name);
}

NodeId ImageBuilder::dropout(NodeId x, const std::string& name, double probability) {
  return probability > 0 ? b_.layer<Dropout>({x}, name, probability) : x;
}

NodeId ImageBuilder::linear(NodeId x, const std::string& name, int64_t out, LinearOptions options) {
  return b_.layer<Linear>({x}, name, b_.shape(x).back(), out, options);
}

Model ImageBuilder::finish(NodeId output) { return finish_with_loss(b_, output, target_, spec_); }

}  // namespace trireme
