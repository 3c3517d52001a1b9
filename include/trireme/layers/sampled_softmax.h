// SampledSoftmax: a linear layer over a large vocabulary with its cross entropy, trained on a sample of the classes
// (Jean, Cho, Memisevic, Bengio, "On Using Very Large Target Vocabulary for Neural Machine Translation", 2015;
// Jozefowicz et al., "Exploring the Limits of Language Modeling", 2016).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct SampledSoftmaxOptions {
  int64_t width = 1;  ///< features of the input
  /// The size of the vocabulary, frequent words first: the sampler assumes that class c is the c-th most frequent.
  int64_t classes = 2;
  int64_t samples = 1;      ///< distinct classes drawn per step, less than `classes`
  std::string module = {};  ///< parameters "<module>.weight", "<module>.bias"; empty: the layer's name
  /// > 0: initial weights are normal with this standard deviation, the bias is 0; 0: as Linear.
  double deviation = 0;
};

/// Inputs: states [n, t, width] (or [n, width]) and labels [n, t] ([n]), integers. Output: per sample the mean over
/// positions of a cross entropy, [n], in float (double for double states). Parameters weight [classes, width] and bias
/// [classes].
///
/// In training: the cross entropy over the label and the drawn classes, with logits w h + b - log(expected count). The
/// expected count of class c is the probability that `tries` draws from P(c) = log((c + 2) / (c + 1)) / log(classes +
/// 1) contain it; `tries` is the number of draws until `samples` distinct classes were found. A drawn class that is a
/// position's label is not counted a second time for that position. All positions of a step share the drawn classes,
/// which depend only on seed, step and layer name: no plan changes them. In an evaluation: the cross entropy over all
/// classes. It also reports "correct", the sum over samples of the share of positions whose label has the largest
/// logit.
///
/// Split by "vocabulary": each worker holds a share of the classes and computes those drawn classes that are in its
/// share; per position two maxima and a sum are communicated. The input's gradient is a sum. Throws a user error that
/// names a label outside 0 .. classes - 1, and an internal error if backward follows an evaluation.
class SampledSoftmax : public Layer {
 public:
  SampledSoftmax(std::string name, SampledSoftmaxOptions options);

  std::string_view kind() const override { return "sampled_softmax"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::master; }
  std::optional<int64_t> integers_below(std::span<const Shape>, size_t index) const override {
    return index == 1 ? std::optional<int64_t>(options_.classes) : std::nullopt;
  }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// The classes of this worker that labels are compared with.
  struct Candidates {
    at::Tensor classes;      ///< ascending, relative to the worker's first class; undefined: all that it holds
    at::Tensor corrections;  ///< log(expected count) of each, double
    double tries = 0;        ///< draws needed to find the sample; 0: no correction
  };
  /// Cross entropies of rows, and the values from which their gradients are computed.
  struct Comparison {
    at::Tensor losses;             ///< [rows]
    at::Tensor candidates, label;  ///< probabilities [rows, candidates of this worker] and [rows]
    at::Tensor is_right;           ///< [rows]: true if no other class had a larger logit
  };
  int64_t first_class(const LayerCall& call, int64_t local) const;
  double log_expected_count(int64_t c, double tries) const;
  Candidates draw(const LayerCall& call, int64_t local) const;
  /// Returns logits [rows, candidates], -inf where a candidate is the row's label; in float or double.
  at::Tensor candidate_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                              const Candidates& candidates) const;
  /// Returns logits [rows] of the labels that this worker holds, -inf for the others.
  at::Tensor label_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels, double tries) const;
  Comparison compare(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                     const Candidates& candidates) const;
  /// Returns the losses of all rows against all classes. Processes a part of the rows at a time.
  at::Tensor compare_with_all(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                              int64_t samples) const;
  void check_labels(const at::Tensor& labels) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& candidate_gradient, const at::Tensor& label_gradient,
                               const at::Tensor& own_labels) const;

  SampledSoftmaxOptions options_;
};

}  // namespace trireme
