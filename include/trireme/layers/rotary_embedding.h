// RotaryEmbedding: positions as rotations of queries and keys (Su et al., "RoFormer", 2021).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct RotaryEmbeddingOptions {
  int64_t heads = 1;
  double base = 10000;
  /// Llama 3.1's rule for longer texts. n is the number of full turns of a pair of features over `original_positions`
  /// positions. n >= high: the speed of the pair is unchanged. n <= low: it is divided by `factor`. Between them it
  /// changes smoothly. `factor` 1: no change.
  double factor = 1, low = 1, high = 4;
  int64_t original_positions = 8192;
};

/// Input and output [n, t, heads * d], d even. At position p, features i and i + d / 2 of each head are rotated by the
/// angle p * base^(-2 i / d): the order of Hugging Face's Llama. No parameters. Split by "features" (whole heads) or by
/// "sequence".
class RotaryEmbedding : public Layer {
 public:
  /// Errors (user): no heads, an option that is not positive, or `high` not above `low`.
  RotaryEmbedding(std::string name, RotaryEmbeddingOptions options);

  std::string_view kind() const override { return "rotary_embedding"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// Radians per position of each pair of features of a head.
  std::vector<double> speeds(int64_t pairs) const;
  at::Tensor rotated(const LayerCall& call, const at::Tensor& tensor, double direction) const;

  RotaryEmbeddingOptions options_;
};

}  // namespace trireme
