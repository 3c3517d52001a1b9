// GroupNorm (Wu and He, "Group Normalization", 2018), PyTorch's nn.GroupNorm. It does not depend on the batch, so
// micro-batches do not change its result.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct GroupNormOptions {
  int64_t groups = 32;
  double epsilon = 1e-5;
};

/// Input [n, c, h, w] (channels_last) or [n, c]. Each sample is normalised over each of `groups` groups of c / groups
/// consecutive channels. Parameters weight, bias [c] in full precision; statistics are computed in float under
/// bfloat16. Split by "channels" if the number of groups divides evenly.
class GroupNorm : public Layer {
 public:
  GroupNorm(std::string name, int64_t channels, GroupNormOptions options = {});

  std::string_view kind() const override { return "group_norm"; }
  Attributes attributes() const override { return {{"groups", options_.groups}, {"epsilon", options_.epsilon}}; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t channels_;
  GroupNormOptions options_;
};

}  // namespace trireme
