// Compares every layer's backward with central differences of its forward, in double.
#include <gtest/gtest.h>

#include "layer_cases.h"

namespace trireme::test_support {
namespace {

constexpr uint64_t kSeed = 11;
constexpr double kStep = 1e-5, kTolerance = 1e-7;
constexpr int64_t kPaddingRow = 5;  // in the case "embedding_padding"

class Gradient : public ::testing::TestWithParam<LayerCase> {};

/// <weights, forward(inputs; parameters)>, with fresh running statistics.
double objective(const LayerCase& c, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& parameters,
                 const at::Tensor& weights) {
  TestCall call;
  fill_call(call, c, kSeed);
  call.parameters = parameters;
  return (c.layer->forward(call, inputs) * weights).sum().item<double>();
}

/// d objective / d variable[i] for every element.
template <class Objective>
at::Tensor differences(at::Tensor& variable, const Objective& objective) {
  at::Tensor result = at::empty_like(variable);
  double *x = variable.data_ptr<double>(), *d = result.data_ptr<double>();
  for (int64_t i = 0; i < variable.numel(); ++i) {
    double kept = x[i];
    x[i] = kept + kStep;
    double above = objective();
    x[i] = kept - kStep;
    d[i] = (above - objective()) / (2 * kStep);
    x[i] = kept;
  }
  return result;
}

TEST_P(Gradient, EqualsDifferences) {
  const LayerCase& c = GetParam();
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  TestCall call;
  fill_call(call, c, kSeed);
  std::vector<at::Tensor> parameters = call.parameters;
  at::Tensor output = c.layer->forward(call, inputs);
  Shape expected = c.layer->output_shape(c.inputs);
  expected.insert(expected.begin(), kBatch);
  ASSERT_EQ(output.sizes().vec(), expected);
  at::Tensor weights = random_tensor(output.sizes(), kSeed + 50);
  std::vector<at::Tensor> gradients = c.layer->backward(call, weights);
  ASSERT_EQ(gradients.size(), inputs.size());

  auto evaluate = [&] { return objective(c, inputs, parameters, weights); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.is_integer(i)) {
      EXPECT_FALSE(gradients[i].defined());
      continue;
    }
    at::Tensor expected_gradient = differences(inputs[i], evaluate);
    EXPECT_LT((gradients[i] - expected_gradient).abs().max().item<double>(), kTolerance) << "input " << i;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor expected_gradient = differences(parameters[i], evaluate);
    if (c.name == "embedding_padding") expected_gradient[kPaddingRow].zero_();  // this row is not trained
    EXPECT_LT((call.gradients.at(int(i)) - expected_gradient).abs().max().item<double>(), kTolerance)
        << "parameter " << i;
  }
}

TEST_P(Gradient, AccumulatesOverMicroBatches) {
  const LayerCase& c = GetParam();
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  TestCall call;
  fill_call(call, c, kSeed);
  at::Tensor weights = random_tensor(c.layer->forward(call, inputs).sizes(), kSeed);
  c.layer->backward(call, weights);
  std::vector<at::Tensor> once;
  for (auto& [i, gradient] : call.gradients) once.push_back(gradient.clone());
  c.layer->forward(call, inputs);
  c.layer->backward(call, weights);
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_TRUE(at::allclose(call.gradients.at(int(i)), 2 * once[i], 1e-12, 1e-12));
}

TEST_P(Gradient, EmptyBatchGivesEmptyTensorsAndZeroGradients) {
  const LayerCase& c = GetParam();
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed, 0);
  TestCall call;
  fill_call(call, c, kSeed);
  at::Tensor output = c.layer->forward(call, inputs);
  Shape expected = c.layer->output_shape(c.inputs);
  expected.insert(expected.begin(), 0);
  ASSERT_EQ(output.sizes().vec(), expected);
  std::vector<at::Tensor> gradients = c.layer->backward(call, at::empty_like(output));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (gradients.at(i).defined()) {
      EXPECT_EQ(gradients[i].sizes(), inputs[i].sizes());
    }
  for (size_t i = 0; i < call.parameters.size(); ++i)
    EXPECT_EQ(call.gradients.at(int(i)).abs().max().item<double>(), 0) << "parameter " << i;
  if (!call.buffers.empty()) {
    EXPECT_EQ(call.buffers[0].abs().max().item<double>(), 0);
  }
}

TEST_P(Gradient, LowPrecisionFollowsDouble) {
  const LayerCase& c = GetParam();
  for (auto [type, tolerance] : {std::pair{at::kFloat, 2e-5}, std::pair{at::kBFloat16, 0.08}}) {
    std::vector<at::Tensor> exact_inputs = random_inputs(c, kSeed), inputs;
    for (at::Tensor& x : exact_inputs) {
      inputs.push_back(x.scalar_type() == at::kDouble ? x.to(type) : x);
      x = x.scalar_type() == at::kDouble ? inputs.back().to(at::kDouble) : x;
    }
    TestCall exact, call;
    fill_call(exact, c, kSeed);
    fill_call(call, c, kSeed);
    auto specs = c.layer->parameters();
    for (size_t i = 0; i < specs.size(); ++i) {
      call.parameters[i] = call.parameters[i].to(specs[i].full_precision ? at::kFloat : type);
      exact.parameters[i] = call.parameters[i].to(at::kDouble);
    }
    for (at::Tensor& b : call.buffers) b = b.to(at::kFloat);
    at::Tensor expected = c.layer->forward(exact, exact_inputs), output = c.layer->forward(call, inputs);
    EXPECT_EQ(output.scalar_type(), c.is_loss() ? at::kFloat : type);
    double size = expected.abs().max().item<double>();
    EXPECT_LT((output.to(at::kDouble) - expected).abs().max().item<double>(), tolerance * size) << c10::toString(type);
    at::Tensor weights = random_tensor(output.sizes(), kSeed).to(output.scalar_type());
    auto expected_gradients = c.layer->backward(exact, weights.to(at::kDouble)),
         gradients = c.layer->backward(call, weights);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) {
        EXPECT_EQ(gradients[i].scalar_type(), type);
        // A ReLU near zero may be positive in one precision only, so compare means.
        at::Tensor error = (gradients[i].to(at::kDouble) - expected_gradients[i]).abs().mean();
        EXPECT_LT(error.item<double>(), tolerance * expected_gradients[i].abs().mean().item<double>())
            << c10::toString(type);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Gradient, ::testing::ValuesIn(layer_cases()),
                         [](const auto& info) { return info.param.name; });

class SplitBackward : public ::testing::TestWithParam<LayerCase> {};

TEST_P(SplitBackward, EqualsTheWhole) {
  const LayerCase& c = GetParam();
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  TestCall whole, parts;
  fill_call(whole, c, kSeed);
  fill_call(parts, c, kSeed);
  at::Tensor weights = random_tensor(c.layer->forward(whole, inputs).sizes(), kSeed);
  std::vector<at::Tensor> expected = c.layer->backward(whole, weights);
  c.layer->forward(parts, inputs);
  parts.defer_parameters = true;
  std::vector<at::Tensor> gradients = c.layer->backward(parts, weights);
  EXPECT_TRUE(parts.gradients.empty());
  ASSERT_EQ(gradients.size(), expected.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    ASSERT_EQ(gradients[i].defined(), expected[i].defined());
    if (gradients[i].defined()) {
      EXPECT_TRUE(at::equal(gradients[i], expected[i])) << "input " << i;
    }
  }
  c.layer->backward_parameters(parts);
  ASSERT_EQ(parts.gradients.size(), whole.gradients.size());
  for (auto& [i, gradient] : whole.gradients)
    EXPECT_TRUE(at::equal(parts.gradients.at(i), gradient)) << "parameter " << i;
}

std::vector<LayerCase> splitting_cases() {
  std::vector<LayerCase> cases;
  for (const LayerCase& c : layer_cases())
    if (c.layer->splits_backward()) cases.push_back(c);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Layers, SplitBackward, ::testing::ValuesIn(splitting_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::test_support
