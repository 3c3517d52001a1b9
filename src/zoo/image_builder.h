// Adds the layers of image networks, one after the other.
#pragma once

#include <string>

#include "trireme/layers/batch_norm.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/max_pool2d.h"
#include "zoo/zoo.h"

namespace trireme {

/// Starts with the inputs "data" and "target" of `spec`, which must outlive this object, and ends with the task's loss.
/// The functions add layers named `name` that read `x`, and return their output.
class ImageBuilder {
 public:
  /// Throws a user error if the samples are not images.
  explicit ImageBuilder(const ModelSpec& spec);

  ModelBuilder& builder() { return b_; }
  const ModelSpec& spec() const { return spec_; }
  NodeId data() const { return data_; }
  NodeId target() const { return target_; }
  int64_t channels(NodeId x) const { return b_.shape(x)[0]; }
  int64_t height(NodeId x) const { return b_.shape(x)[1]; }
  int64_t width(NodeId x) const { return b_.shape(x)[2]; }

  /// Sets `options.in`.
  NodeId conv(NodeId x, const std::string& name, Conv2dOptions options);
  NodeId norm(NodeId x, const std::string& name, BatchNormOptions options = {});
  /// Norm and ReLU in one layer.
  NodeId norm_relu(NodeId x, const std::string& name, double epsilon = 1e-5);
  NodeId relu(NodeId x, const std::string& name);
  NodeId max_pool(NodeId x, const std::string& name, MaxPool2dOptions options);
  NodeId concat(std::vector<NodeId> inputs, const std::string& name);
  NodeId dropout(NodeId x, const std::string& name, double probability);  ///< adds no layer if it is 0
  NodeId linear(NodeId x, const std::string& name, int64_t out, LinearOptions options = {});

  /// Adds the loss of spec.task over `output` and returns the model.
  Model finish(NodeId output);

 private:
  const ModelSpec& spec_;
  ModelBuilder b_;
  NodeId data_, target_;
};

}  // namespace trireme
