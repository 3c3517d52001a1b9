// Compares operators on the strict device with the CPU.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/strict_device.h"

namespace trireme::test {

using Tensors = std::vector<at::Tensor>;
using Ts = Tensors&;

/// An operator with its arguments on the CPU.
struct OperatorCase {
  std::string name;
  Tensors arguments;
  std::function<Tensors(Tensors&)> run;
};

class StrictDevice : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    install_strict_device();
    at::manual_seed(1);
  }
  void TearDown() override {
    for (int index = 0; index < kStrictDevices; ++index) EXPECT_EQ(strict_bytes(index), 0);
  }
};

inline at::Tensor rand(at::IntArrayRef sizes) { return at::randn(sizes); }
inline at::Tensor image() { return rand({2, 6, 8, 8}); }

/// The same bits, sizes, strides and type.
inline void expect_same(const at::Tensor& strict, const at::Tensor& cpu, const std::string& name) {
  ASSERT_EQ(strict.defined(), cpu.defined()) << name;
  if (!cpu.defined()) return;
  EXPECT_EQ(strict.sizes(), cpu.sizes()) << name;
  EXPECT_EQ(strict.strides(), cpu.strides()) << name;
  ASSERT_EQ(strict.scalar_type(), cpu.scalar_type()) << name;
  const at::Tensor on_cpu = strict.cpu();
  EXPECT_TRUE(at::equal(on_cpu, cpu) || (cpu.is_floating_point() && at::allclose(on_cpu, cpu, 0, 0, true)))
      << name << "\n"
      << on_cpu << "\n"
      << cpu;
}

/// Runs the operator on both devices; its results and its arguments afterwards must be the same.
inline void check(const OperatorCase& op) {
  SCOPED_TRACE(op.name);
  Tensors cpu, strict;
  for (const at::Tensor& argument : op.arguments) {
    cpu.push_back(argument.clone());
    strict.push_back(cpu.back().to(strict_device(1)));
    ASSERT_EQ(strict.back().strides(), cpu.back().strides());
  }
  Tensors expected, results;
  ASSERT_NO_THROW(expected = op.run(cpu));
  try {
    results = op.run(strict);
  } catch (const std::exception& error) {
    FAIL() << op.name << ": " << error.what();
  }
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(!results[i].defined() || results[i].device() == strict_device(1)) << op.name;
    expect_same(results[i], expected[i], op.name + ", result " + std::to_string(i));
  }
  for (size_t i = 0; i < cpu.size(); ++i) expect_same(strict[i], cpu[i], op.name + ", argument " + std::to_string(i));
}

}  // namespace trireme::test
