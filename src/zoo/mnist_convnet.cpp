// A small convolutional network in the style of LeNet-5 (LeCun et al., 1998).
#include "trireme/layers/conv2d.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/relu.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

Model make_mnist_convnet(const ModelSpec& spec, const ModelOptions&) {
  ModelBuilder b(spec.name);
  NodeId x = b.input("data", spec.sample_shape);
  NodeId target = b.input("target", spec.target_shape);
  int64_t channels = spec.sample_shape.empty() ? 1 : spec.sample_shape[0];
  x = b.layer<Conv2d>({x}, "conv1", Conv2dOptions{.in = channels, .out = 16, .kernel = 5});
  x = b.layer<Relu>({x}, "relu1");
  x = b.layer<MaxPool2d>({x}, "pool1");
  x = b.layer<Conv2d>({x}, "conv2", Conv2dOptions{.in = 16, .out = 32, .kernel = 5});
  x = b.layer<Relu>({x}, "relu2");
  x = b.layer<MaxPool2d>({x}, "pool2");
  x = b.layer<Flatten>({x}, "flatten");
  x = b.layer<Linear>({x}, "fc1", b.shape(x)[0], 128);
  x = b.layer<Relu>({x}, "relu3");
  NodeId logits = b.layer<Linear>({x}, "fc2", 128, spec.classes);
  return finish_with_loss(b, logits, target, spec);
}

}  // namespace

std::vector<NamedModel> mnist_convnet_models() {
  return {{"mnist-convnet", "two 5x5 convolutions, two fully connected layers", make_mnist_convnet}};
}

}  // namespace trireme
