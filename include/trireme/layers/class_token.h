// ClassToken: puts a learned vector before a sequence. Its last state represents the whole sequence (Devlin et al.,
// "BERT", 2018; Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// [n, t, width] to [n, 1 + t, width]. One parameter of shape [1, 1, width] with the layer's name ("class_token", as in
/// torchvision's VisionTransformer). Split by "features".
class ClassToken : public Layer {
 public:
  ClassToken(std::string name, int64_t width, Init init = Init::constant(0))
      : Layer(std::move(name)), width_(width), init_(init) {}

  std::string_view kind() const override { return "class_token"; }
  std::vector<ParameterSpec> parameters() const override { return {{name(), {1, 1, width_}, init_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t width_;
  Init init_;
};

}  // namespace trireme
