// One small instance of every layer, for the tests that hold for all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/layer.h"
#include "test_call.h"

namespace trireme::testing {

struct LayerCase {
  std::string name;
  std::shared_ptr<const Layer> layer;
  std::vector<Shape> inputs;  ///< sample shapes
  int64_t labels = 0;         ///< > 0: the second input holds labels below this
  int64_t indices = 0;        ///< > 0: the first input holds integers below this

  bool is_integer(size_t input) const { return (labels > 0 && input == 1) || (indices > 0 && input == 0); }
};

/// Channel counts divide by 4 so that every option exists at degrees 2 and 4.
std::vector<LayerCase> layer_cases();
/// Those of layer_cases() that transformers are made of.
std::vector<LayerCase> transformer_cases();

constexpr int64_t kBatch = 3;
/// Double tensors drawn from `seed`; labels for a loss's second input.
std::vector<at::Tensor> random_inputs(const LayerCase& c, uint64_t seed, int64_t batch = kBatch);
/// A call with whole double parameters and buffers drawn from `seed`.
void fill_call(TestCall& call, const LayerCase& c, uint64_t seed);
at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed);

}  // namespace trireme::testing
