// Embedding: reads one row of a table for every index.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct EmbeddingOptions {
  double deviation = 1;  ///< initial values are normal(0, deviation); 1 as in PyTorch's nn.Embedding
  /// >= 0: the index of a row that is never trained: its gradient is zero (nn.Embedding's padding_idx).
  int64_t padding = -1;
};

/// Input: indices, integers of any sample shape [...]; output [..., width]. Parameter weight [rows, width].
///
/// Split by "vocabulary": each worker holds a share of the rows and returns zeros for indices of other shares, so the
/// output is a sum (Shoeybi et al., "Megatron-LM", 2019). By "hidden": a share of the columns. By "sequence": all rows,
/// for a share of the indices.
///
/// The gradient of a row is summed in the order of the indices, so its bits are reproducible. Throws a user error that
/// names an index outside 0 .. rows - 1.
class Embedding : public Layer {
 public:
  Embedding(std::string name, int64_t rows, int64_t width, EmbeddingOptions options = {});

  std::string_view kind() const override { return "embedding"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  bool reads_rows() const override { return true; }
  std::optional<int64_t> integers_below(std::span<const Shape>, size_t) const override { return rows_; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  /// The first row that this worker holds.
  int64_t first_row(const LayerCall& call) const;
  void add_weight_gradient(LayerCall& call, const at::Tensor& output_gradient) const;

  int64_t rows_, width_;
  EmbeddingOptions options_;
};

}  // namespace trireme
