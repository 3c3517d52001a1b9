#include "base/touched_bytes.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

namespace trireme::test_support {
namespace {

constexpr int64_t kElements = 1000;
constexpr double kTensor = 4.0 * kElements;  // bytes

TEST(TouchedBytes, AreThoseThatOperatorsReadAndWrite) {
  const c10::InferenceMode inference;
  at::Tensor a = at::ones({kElements}), b = at::ones({kElements});
  TouchedBytes touched;
  EXPECT_EQ(touched.take(), 0);
  a.add_(b);  // reads both, writes one
  EXPECT_EQ(touched.take(), 3 * kTensor);
  const at::Tensor sum = a + b;
  EXPECT_EQ(touched.take(), 3 * kTensor);
  a.mul_(0.5);
  const at::Tensor copy = a.clone();
  EXPECT_EQ(touched.take(), 4 * kTensor);
  const at::Tensor both = at::cat({a, b});
  EXPECT_EQ(touched.take(), 4 * kTensor);
  at::sub_out(a, b, sum);
  EXPECT_GE(touched.take(), 3 * kTensor);  // the output is an argument, too
}

TEST(TouchedBytes, AreNoneForViewsAndNewMemory) {
  const at::Tensor a = at::ones({kElements});
  TouchedBytes touched;
  const at::Tensor part = a.narrow(0, 0, 10), flat = a.view({10, 100}), bare = a.detach();
  const at::Tensor unwritten = at::empty({kElements}), alike = at::empty_like(a);
  EXPECT_EQ(touched.take(), 0);
  part.mul_(2);
  EXPECT_EQ(touched.take(), 2.0 * 10 * 4);
}

TEST(TouchedBytes, AreOfOneThreadAndNotOfAPause) {
  at::Tensor a = at::ones({kElements});
  TouchedBytes touched;
  {
    const TouchedBytes::Paused paused;
    a.mul_(2);
  }
  std::thread([&] { a.mul_(2); }).join();
  EXPECT_EQ(touched.take(), 0);
  a.mul_(2);
  EXPECT_EQ(touched.take(), 2 * kTensor);
}

TEST(TouchedBytes, EndWithTheirObject) {
  at::Tensor a = at::ones({kElements});
  { const TouchedBytes first; }
  a.mul_(2);
  TouchedBytes second;
  EXPECT_EQ(second.take(), 0);
}

}  // namespace
}  // namespace trireme::test_support
