// Compares a layer's output and gradients with libtorch's operators and autograd.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layer_cases.h"

namespace trireme::test_support {

using Tensors = const std::vector<at::Tensor>&;
using Oracle = std::function<at::Tensor(Tensors inputs, Tensors parameters)>;
/// Pairs of a layer case's name and its oracle.
using Oracles = std::vector<std::pair<std::string, Oracle>>;

inline void expect_equals_autograd(const LayerCase& c, const Oracle& oracle, double tolerance) {
  constexpr uint64_t kSeed = 31;
  std::vector<at::Tensor> inputs = random_inputs(c, kSeed);
  TestCall call;
  fill_call(call, c, kSeed);
  at::Tensor output = c.layer->forward(call, inputs), weights = random_tensor(output.sizes(), kSeed + 1);
  std::vector<at::Tensor> gradients = c.layer->backward(call, weights);

  std::vector<at::Tensor> leaves, parameters;
  for (size_t i = 0; i < inputs.size(); ++i) leaves.push_back(inputs[i].clone().set_requires_grad(!c.is_integer(i)));
  for (const at::Tensor& p : call.parameters) parameters.push_back(p.clone().set_requires_grad(true));
  at::Tensor expected = oracle(leaves, parameters);
  (expected * weights).sum().backward();
  auto expect_near = [&](const at::Tensor& got, const at::Tensor& want, const std::string& what) {
    ASSERT_EQ(got.sizes(), want.sizes()) << what;
    EXPECT_LT((got - want.detach()).abs().max().item<double>(), tolerance) << what;
  };
  expect_near(output, expected, "output");
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!c.is_integer(i)) expect_near(gradients[i], leaves[i].grad(), "input " + std::to_string(i));
  for (size_t i = 0; i < parameters.size(); ++i)
    expect_near(call.gradients.at(int(i)), parameters[i].grad(), "parameter " + std::to_string(i));
}

}  // namespace trireme::test_support
