// BatchNorm with optional residual addition and ReLU: y = relu(norm(x) + residual), one pass over memory in each
// direction. Ioffe and Szegedy, "Batch Normalization", 2015; constants and running statistics as in PyTorch's
// nn.BatchNorm.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct BatchNormOptions {
  bool relu = false;
  bool residual = false;  ///< reads a second input of the same shape, added before the ReLU
  double momentum = 0.1;
  double epsilon = 1e-5;
};

/// Inputs [n, c, h, w] (channels_last), [n, c, l] or [n, c]. Parameters weight, bias [c] in full precision; buffers
/// running_mean, running_var [c].
///
/// In training the statistics are those of the local batch, or under BatchNormScope::global those of the micro-batch
/// over all data shards: the data group gathers mean, M2 and count in forward and adds two sums in backward. A shard
/// without samples participates. The running variance is the unbiased one. Under BatchNormScope::deferred the running
/// statistics are updated with all micro-batches of a step together, after the last one; until then the moments are in
/// the call's scratch tensor.
///
/// Sharded by channels, or by rows of images or positions of sequences. In the latter case the tensor group gathers and
/// adds in the same way as the data group above.
class BatchNorm : public Layer {
 public:
  BatchNorm(std::string name, int64_t channels, BatchNormOptions options = {});

  std::string_view kind() const override { return "batch_norm"; }
  Attributes attributes() const override;
  std::vector<ParameterSpec> parameters() const override;
  std::vector<BufferSpec> buffers() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  bool communicates_over_data_axis(BatchNormScope scope) const override { return scope == BatchNormScope::global; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t channels_;
  BatchNormOptions options_;
};

}  // namespace trireme
