// Attention: scaled dot products between the positions of sequences, by heads (Vaswani et al., "Attention Is All You
// Need", 2017). The projections before and after it are Linear layers.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct AttentionOptions {
  int64_t heads = 1;
  bool causal = false;  ///< position t sees positions 0 .. t only; queries and keys must belong to the same sequence
  double dropout = 0;   ///< probability that a weight of the average is dropped in training
  bool fused = false;   ///< queries, keys and values are one input [n, t, 3, e], the output of a Linear with 3 parts
  /// The last input holds the tokens of the keys [n, s] (integers); keys whose token is kPadding are ignored.
  bool padding = false;
  /// Heads of keys and values, each of which heads / key_heads consecutive heads of queries read (Ainslie et al.,
  /// "GQA", 2023). 0: as many as `heads`. Not for a fused input.
  int64_t key_heads = 0;
};

/// Inputs: queries [n, t, e], keys and values [n, s, e] (the options change this; with fewer key heads they have
/// e key_heads / heads features). Output [n, t, e]. Head h reads and writes features h e / heads to (h + 1) e / heads.
/// No parameters. The dropout mask is keyed by the element's index in the whole [heads, t, s] of a sample. Split by
/// "heads" (features of all inputs; Shoeybi et al., "Megatron-LM", 2019; the degree must divide the key heads) or by
/// "sequence" (the queries; every worker reads all keys and values, whose gradients are sums; not available for a fused
/// input).
class Attention : public Layer {
 public:
  Attention(std::string name, AttentionOptions options);

  std::string_view kind() const override { return "attention"; }
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  std::optional<int64_t> integers_below(std::span<const Shape> inputs, size_t index) const override;
  bool is_cheap_to_recompute() const override { return true; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// The heads and queries that this worker computes.
  struct Part {
    int64_t heads, key_heads, first_head, first_query, all_queries;
  };
  Part part_of(const LayerCall& call, int64_t queries) const;
  int64_t key_heads() const { return options_.key_heads > 0 ? options_.key_heads : options_.heads; }
  int input_count() const { return (options_.fused ? 1 : 3) + options_.padding; }
  void check_shapes(const Shape& queries, const Shape& keys, const Shape& values) const;
  /// Returns the weights of the average [n, heads, t, s] before dropout. `tokens` is undefined without padding.
  at::Tensor weights_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& tokens, int64_t first_query) const;
  bool uses_flash(const LayerCall& call, int64_t first_query, const at::Tensor& queries, const at::Tensor& keys) const;
  bool drops(const LayerCall& call) const { return call.training && options_.dropout > 0; }

  AttentionOptions options_;
};

}  // namespace trireme
