// A model with its weights, run forward on one device: for what needs whole outputs and not the sums of an evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/precision.h"
#include "trireme/communicator.h"
#include "trireme/model.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// Evaluates as a worker does: no dropout, batch norm with its running statistics, stateful layers from zeros. Not
/// thread-safe. The model must outlive it.
class Predictor {
 public:
  /// `weights`: by name, the whole of every parameter and buffer that the model's output depends on. Computes in
  /// `precision`. Errors: internal, when one is missing or the output depends on the targets.
  Predictor(const Model& model, const TensorMap& weights, Precision precision);
  /// The same model for samples of other lengths (data/text/repadded_set.h), with the weights of `other`, which are
  /// shared.
  Predictor(const Model& model, const Predictor& other);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  /// What the loss would judge, [n, ...] for `data` [n, ...sample shape], in the compute dtype.
  at::Tensor predict(const at::Tensor& data);

  /// The same, but a layer whose inputs equal those of the call before is not run again: all outputs are kept, and
  /// token ids are compared. For decoding, where the source of a translation stays as it is from one token to the next.
  at::Tensor predict_again(const at::Tensor& data);

 private:
  struct Call;
  struct Step;

  at::Tensor run(const at::Tensor& data, bool keeps);
  at::Tensor forward(Step& step, int64_t samples);

  const Model& model_;
  Precision precision_;
  std::unique_ptr<Communicator> alone_;
  std::vector<Step> steps_;         ///< the layers before the output, in order
  std::vector<at::Tensor> values_;  ///< by node
  std::vector<bool> changed_;       ///< by node, of the last call
};

}  // namespace trireme
