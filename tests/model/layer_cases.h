// One small instance of every layer, for tests that hold for all layers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test_call.h"
#include "trireme/layer.h"

namespace trireme::test_support {

struct LayerCase {
  std::string name;
  std::shared_ptr<const Layer> layer;
  std::vector<Shape> inputs;  ///< sample shapes
  int64_t labels = 0;         ///< > 0: the second input holds labels below this
  int64_t indices = 0;        ///< > 0: the first input holds integers below this
  int64_t tokens = 0;         ///< > 0: the last input holds integers below this

  bool is_integer(size_t input) const { return integers_below(input) > 0; }
  /// 0 if the input holds real numbers.
  int64_t integers_below(size_t input) const {
    if (input == 0) return indices;
    if (tokens > 0 && input + 1 == inputs.size()) return tokens;
    return input == 1 ? labels : 0;
  }
  bool is_loss() const { return layer->output_shape(inputs).empty(); }
};

/// Channel counts divide by 4 so that every option exists at degrees 2 and 4.
std::vector<LayerCase> layer_cases();
/// Groups of layer_cases(): layers of transformers, layers for images, layers for sequences, losses.
std::vector<LayerCase> transformer_cases();
std::vector<LayerCase> vision_cases();
std::vector<LayerCase> sequence_cases();
std::vector<LayerCase> loss_cases();
/// The case of layer_cases() with this name. Errors: std::logic_error if there is none.
LayerCase case_named(const std::string& name);

constexpr int64_t kBatch = 3;
/// Double tensors drawn from `seed`; labels for a loss's second input.
std::vector<at::Tensor> random_inputs(const LayerCase& c, uint64_t seed, int64_t batch = kBatch);
/// A call with whole double parameters and buffers drawn from `seed`.
void fill_call(TestCall& call, const LayerCase& c, uint64_t seed);
at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed);

}  // namespace trireme::test_support
