// Slice: a range of one dim, for example the source or the target part of a translation's tokens, or positions of a
// sequence.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct SliceOptions {
  int64_t begin = 0, end = 0;  ///< end: one past the last
  int dim = 1;                 ///< 1: the first dim of a sample (channels, positions); 0 is the batch
};

/// Returns elements begin .. end - 1 of dim `dim`, of any dtype. Sharded along any other dim (except the batch) that
/// divides evenly.
class Slice : public Layer {
 public:
  Slice(std::string name, SliceOptions options) : Layer(std::move(name)), options_(options) {}

  std::string_view kind() const override { return "slice"; }
  Attributes attributes() const override {
    return {{"begin", options_.begin}, {"end", options_.end}, {"dim", options_.dim}};
  }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  SliceOptions options_;
};

}  // namespace trireme
