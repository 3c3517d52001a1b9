// Cases of losses that layer_cases.cpp and transformer_cases.cpp do not have.
#include "layer_cases.h"
#include "trireme/layers/mean_squared_error.h"
#include "trireme/layers/pixel_cross_entropy.h"
#include "trireme/layers/sampled_softmax.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/weighted_sum.h"

namespace trireme::test_support {

std::vector<LayerCase> loss_cases() {
  const std::vector<double> training{1, 0.4}, evaluation{1, 0};
  auto sampled = [](SampledSoftmaxOptions o) { return std::make_shared<const SampledSoftmax>("layer", o); };
  auto entropy = [](SoftmaxCrossEntropyOptions o) { return std::make_shared<const SoftmaxCrossEntropy>("layer", o); };
  const auto all_positions = SoftmaxCrossEntropyOptions::Mean::all_positions;
  return {
      {"cross_entropy_top5", entropy({}), {{24}, {}}, 24},
      {"cross_entropy_smoothing", entropy({.label_smoothing = 0.1}), {{24}, {}}, 24},
      {"cross_entropy_tokens",
       entropy({.ignore_index = 0, .label_smoothing = 0.2, .mean = all_positions}),
       {{12, 8}, {12}},
       8},
      {"pixel_cross_entropy", std::make_shared<const PixelCrossEntropy>("layer"), {{5, 8, 3}, {8, 3}}, 5},
      {"mean_squared_error", std::make_shared<const MeanSquaredError>("layer"), {{8}, {8}}},
      {"weighted_sum", std::make_shared<const WeightedSum>("layer", training, evaluation), {{8, 5}, {8, 5}}},
      {"sampled_softmax", sampled({.width = 6, .classes = 24, .samples = 10}), {{5, 6}, {5}}, 24},
      {"sampled_softmax_features", sampled({.width = 6, .classes = 8, .samples = 3}), {{6}, {}}, 8},
  };
}

}  // namespace trireme::test_support
