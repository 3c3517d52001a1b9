// AdditiveAttention: the attention of a decoder over an encoder's states (Bahdanau, Cho, Bengio, "Neural Machine
// Translation by Jointly Learning to Align and Translate", 2015), with normalised energies (Luong, Brevdo, Zhao,
// "Neural Machine Translation (seq2seq) Tutorial", 2017, after Salimans and Kingma, "Weight Normalization", 2016), as
// in implementations of GNMT (Wu et al., 2016).
#pragma once

#include <string>
#include <vector>

#include "trireme/layers/autograd_layer.h"

namespace trireme {

struct AdditiveAttentionOptions {
  int64_t query_width = 1;   ///< features of the decoder's states
  int64_t memory_width = 1;  ///< features of the encoder's states
  int64_t units = 1;         ///< width of the space in which both are compared
};

/// Inputs: queries [n, t, query_width], memory [n, s, memory_width], and the source tokens [n, s] (integers); kPadding
/// positions are ignored. Output [n, t, memory_width]: for each query the average of the memory with weights softmax
/// over s of scale * v / |v| . tanh(w_q query + w_k memory + bias).
///
/// Parameters: "<layer>.linear_q.weight" [units, query_width] and "<layer>.linear_k.weight" [units, memory_width],
/// initially uniform as Linear's; "<layer>.linear_att" (v) [units], uniform in ±1/sqrt(units);
/// "<layer>.normalize_scalar" [1], initially 1/sqrt(units); "<layer>.normalize_bias" [units], initially 0.
///
/// Split by "sequence", the queries: every worker reads the whole memory; the gradients of memory and parameters are
/// sums.
class AdditiveAttention : public AutogradLayer {
 public:
  AdditiveAttention(std::string name, AdditiveAttentionOptions options);

  std::string_view kind() const override { return "additive_attention"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  std::optional<int64_t> integers_below(std::span<const Shape>, size_t index) const override {
    return index == 2 ? std::optional<int64_t>(0) : std::nullopt;
  }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;

 protected:
  at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override;

 private:
  AdditiveAttentionOptions options_;
};

}  // namespace trireme
