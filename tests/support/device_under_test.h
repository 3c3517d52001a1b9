// On which device the equivalence tests train: TRIREME_TEST_DEVICE is unset (the CPU), "strict" (tests/support/
// strict_device.h) or "cuda".
#pragma once

#include <ATen/Context.h>
#include <c10/core/Device.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/devices/device.h"
#include "base/devices/gpu.h"
#include "base/memory.h"
#include "support/strict_device.h"

namespace trireme::test_support {

inline std::string device_under_test() {
  const char* const name = std::getenv("TRIREME_TEST_DEVICE");
  return name ? name : "cpu";
}

/// Places every worker of the program on the device under test. Workers share one device, as their weights do.
class DeviceUnderTest : public ::testing::Environment {
 public:
  void SetUp() override {
    const std::string name = device_under_test();
    if (name == "cpu") return;
    if (name != "strict" && name != "cuda") throw std::runtime_error("TRIREME_TEST_DEVICE is strict or cuda");
    if (name == "strict") test::install_strict_device();
    at::globalContext().setDeterministicCuDNN(true);  // some tests expect the same bits twice
    at::globalContext().setAllowTF32CuDNN(false);     // float32 convolutions round as on the CPU
    const c10::Device device = name == "strict" ? test::strict_device(0) : c10::Device(c10::DeviceType::CUDA, 0);
    if (name == "cuda") install_gpu_memory_accounting();
    places_ = std::make_unique<PlacedDevices>(0, std::vector<c10::Device>(kMaxDevices, device));
  }
  void TearDown() override { places_.reset(); }

 private:
  std::unique_ptr<PlacedDevices> places_;
};

}  // namespace trireme::test_support
