// Compares tensors within a tolerance.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme::test_support {

/// Expects equal shapes and, for every element, an absolute difference below `tolerance`. `what` names the tensor.
inline void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what, double tolerance) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_LT((a - b).abs().max().item<double>(), tolerance) << what;
}

}  // namespace trireme::test_support
