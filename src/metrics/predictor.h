// Runs a model with its weights forward on one device. For uses that need whole outputs and not only the sums of an
// evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/precision.h"
#include "trireme/communicator.h"
#include "trireme/model.h"

namespace trireme {

/// Evaluates as a worker does: no dropout, batch norm with its running statistics, stateful layers from zeros. Not
/// thread-safe. The model must outlive this object.
class Predictor {
 public:
  /// `weights`: by name, every parameter and buffer that the model's output depends on, whole. Computes in `precision`.
  /// Throws an internal error if one is missing or the output depends on the targets.
  Predictor(const Model& model, const TensorMap& weights, Precision precision);
  /// The same model for samples of other lengths (data/text/repadded_set.h). Shares the weights of `other`.
  Predictor(const Model& model, const Predictor& other);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  /// Returns the tensor that the loss would read, [n, ...], for `data` [n, ...sample shape], in the compute dtype.
  at::Tensor predict(const at::Tensor& data);

  /// Like predict, but a layer whose inputs equal those of the previous call is not run again: all outputs are
  /// retained, and token ids are compared. For decoding, where the source of a translation is the same from one token
  /// to the next.
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
  std::vector<bool> changed_;       ///< by node: true if it changed in the last call
};

}  // namespace trireme
