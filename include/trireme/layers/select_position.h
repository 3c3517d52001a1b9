// SelectPosition: selects one position of a sequence: a class token's, or the last.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// [n, t, e] to [n, e]: position `index`; a negative index counts from the end. Split by "features", or by "sequence":
/// the worker that holds the position returns it, the others return zeros; the output is the sum.
class SelectPosition : public Layer {
 public:
  explicit SelectPosition(std::string name, int64_t index = 0) : Layer(std::move(name)), index_(index) {}

  std::string_view kind() const override { return "select_position"; }
  Attributes attributes() const override { return {{"index", index_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// The position relative to this worker's `local` positions; outside 0 .. local - 1 if another worker holds it.
  int64_t own_index(const LayerCall& call, int64_t local) const;

  int64_t index_;
};

}  // namespace trireme
