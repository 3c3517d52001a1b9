// PositionEmbedding: adds a learned vector per position of a sequence.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct PositionEmbeddingOptions {
  std::string parameter_name = {};  ///< empty: "<layer>.weight"
  /// The parameter has the shape [1, positions, width], as in torchvision's VisionTransformer.
  bool batch_dim = false;
};

/// y[n, t, :] = x[n, t, :] + weight[t, :]. Parameter weight [positions, width], initially normal(0, deviation).
/// Sequences may be shorter; the last positions are then unused. Split by "sequence" (each worker its positions; the
/// weight is whole, because for samples of another length a worker has other positions) or by "hidden".
class PositionEmbedding : public Layer {
 public:
  PositionEmbedding(std::string name, int64_t positions, int64_t width, double deviation = 0.02,
                    PositionEmbeddingOptions options = {});

  std::string_view kind() const override { return "position_embedding"; }
  Attributes attributes() const override { return {{"batch_dim", options_.batch_dim}}; }
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
  /// The parameter as [positions, width].
  at::Tensor table(const at::Tensor& parameter) const { return options_.batch_dim ? parameter.squeeze(0) : parameter; }
  void add_table_gradient(LayerCall& call, const at::Tensor& gradient, int64_t first) const;

  int64_t positions_, width_;
  double deviation_;
  PositionEmbeddingOptions options_;
};

}  // namespace trireme
