// SampledSoftmax: a linear layer over a large vocabulary and its cross entropy, trained on a sample of the classes
// (Jean, Cho, Memisevic, Bengio, "On Using Very Large Target Vocabulary for Neural Machine Translation", 2015;
// Jozefowicz et al., "Exploring the Limits of Language Modeling", 2016).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct SampledSoftmaxOptions {
  int64_t width = 1;    ///< features of the input
  int64_t classes = 2;  ///< the vocabulary, frequent words first: the sampler takes class c for the c-th most frequent
  int64_t samples = 1;  ///< distinct classes drawn per step, less than `classes`
  std::string module = {};  ///< parameters "<module>.weight", "<module>.bias"; empty: the layer's name
  double deviation = 0;     ///< > 0: weights start normal with this standard deviation, the bias at 0; else as Linear
};

/// Inputs: states [n, t, width] (or [n, width]) and labels [n, t] ([n]), integers. Output: per sample the mean over
/// positions of a cross entropy, [n], in float (double for double states). Parameters weight [classes, width] and bias
/// [classes].
///
/// While training: the cross entropy over the label and the drawn classes, with logits w h + b - log(expected count),
/// where the expected count of class c is the chance that `tries` draws from P(c) = log((c + 2) / (c + 1)) /
/// log(classes + 1) contain it, and `tries` the draws that it took until `samples` distinct ones were found. A drawn
/// class that is a position's label does not count for it a second time. All positions of a step share the drawn
/// classes, which depend on seed, step and layer name only: no plan changes them. In an evaluation: the cross entropy
/// over all classes; also reports "correct", the sum over samples of the share of positions whose label has the largest
/// logit.
///
/// Split by "vocabulary": each worker holds a share of the classes and computes those of the sample that are its own;
/// per position two maxima and a sum travel. The input's gradient is a sum. Errors: user error naming a label outside 0
/// .. classes - 1; internal, when backward follows an evaluation.
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
  /// The classes that labels are compared with, of this worker.
  struct Candidates {
    at::Tensor classes;      ///< ascending, counted from the worker's first one; undefined: all that it holds
    at::Tensor corrections;  ///< log(expected count) of each, double
    double tries = 0;        ///< draws that it took to find the sample; 0: nothing to correct
  };
  /// Cross entropies of rows, and what their gradients are made of.
  struct Comparison {
    at::Tensor losses;             ///< [rows]
    at::Tensor candidates, label;  ///< probabilities [rows, candidates of this worker] and [rows]
    at::Tensor is_right;           ///< [rows]: no other class had a larger logit
  };
  int64_t first_class(const LayerCall& call, int64_t local) const;
  double log_expected_count(int64_t c, double tries) const;
  Candidates draw(const LayerCall& call, int64_t local) const;
  /// Logits [rows, candidates], -inf where a candidate is the row's label; in float or double.
  at::Tensor candidate_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                              const Candidates& candidates) const;
  /// Logits [rows] of the labels that this worker holds, -inf for the others.
  at::Tensor label_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels, double tries) const;
  Comparison compare(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                     const Candidates& candidates) const;
  /// Losses of all rows against all classes, a part of the rows at a time.
  at::Tensor compare_with_all(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                              int64_t samples) const;
  void check_labels(const at::Tensor& labels) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& candidate_gradient, const at::Tensor& label_gradient,
                               const at::Tensor& own_labels) const;

  SampledSoftmaxOptions options_;
};

}  // namespace trireme
