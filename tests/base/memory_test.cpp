#include "base/memory.h"

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>

#include "expect_error.h"

namespace trireme {
namespace {

constexpr int64_t kMiB = 1 << 20;

at::Tensor mebibytes(int64_t n) { return at::empty({n * kMiB}, at::kByte); }

int64_t held(int device, MemoryCategory category) { return memory_use(device).current[size_t(category)]; }

/// Each test uses its own devices, so that it does not see the peaks of other tests.
class Memory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_memory_accounting(); }
  static int new_device() {
    static int next = 0;
    return next++;
  }
};

TEST_F(Memory, CountsByDeviceAndCategoryAndGivesBack) {
  const int one = new_device(), two = new_device();
  {
    DeviceScope device(one);
    at::Tensor activation = mebibytes(3);
    at::Tensor weight, other;
    {
      MemoryScope weights(MemoryCategory::weights);
      weight = mebibytes(5);
      {
        MemoryScope optimizer(MemoryCategory::optimizer);
        DeviceScope inner(two);
        other = mebibytes(7);
      }
      weight = at::cat({weight, mebibytes(1)});
    }
    EXPECT_EQ(held(one, MemoryCategory::activations), 3 * kMiB);
    EXPECT_EQ(held(one, MemoryCategory::weights), 6 * kMiB);
    EXPECT_EQ(held(one, MemoryCategory::optimizer), 0);
    EXPECT_EQ(held(two, MemoryCategory::optimizer), 7 * kMiB);
    EXPECT_EQ(memory_use(one).total(), 9 * kMiB);
  }
  EXPECT_EQ(memory_use(one).total(), 0);
  EXPECT_EQ(memory_use(two).total(), 0);
}

TEST_F(Memory, CountsNothingOutsideAWorker) {
  std::vector<int64_t> before;
  for (int d = 0; d < kMaxDevices; ++d) before.push_back(memory_use(d).total());
  at::Tensor tensor = mebibytes(4);
  for (int d = 0; d < kMaxDevices; ++d) EXPECT_EQ(memory_use(d).total(), before[size_t(d)]);
}

TEST_F(Memory, PeakIsSplitAsItWasAtItsMoment) {
  const int device = new_device();
  DeviceScope scope(device);
  MemoryScope gradients(MemoryCategory::gradients);
  at::Tensor gradient = mebibytes(2);
  {
    MemoryScope activations(MemoryCategory::activations);
    mebibytes(10);
  }
  {
    MemoryScope buffers(MemoryCategory::buffers);
    mebibytes(4);
  }
  MemoryUse use = memory_use(device);
  EXPECT_EQ(use.peak, 12 * kMiB);
  EXPECT_EQ(use.at_peak[size_t(MemoryCategory::activations)], 10 * kMiB);
  EXPECT_EQ(use.at_peak[size_t(MemoryCategory::gradients)], 2 * kMiB);
  EXPECT_EQ(use.at_peak[size_t(MemoryCategory::buffers)], 0);
  EXPECT_EQ(use.total(), 2 * kMiB);

  reset_memory_peak(device);
  use = memory_use(device);
  EXPECT_EQ(use.peak, 2 * kMiB);
  EXPECT_EQ(use.at_peak[size_t(MemoryCategory::activations)], 0);
}

TEST_F(Memory, BlockFreedByAnotherThreadReturnsToItsDevice) {
  const int owner = new_device(), other = new_device();
  at::Tensor tensor;
  std::thread([&] {
    DeviceScope device(owner);
    tensor = mebibytes(6);
  }).join();
  EXPECT_EQ(memory_use(owner).total(), 6 * kMiB);
  std::thread([&] {
    DeviceScope device(other);
    MemoryScope weights(MemoryCategory::weights);
    tensor.reset();
  }).join();
  EXPECT_EQ(memory_use(owner).total(), 0);
  EXPECT_EQ(memory_use(other).total(), 0);
}

TEST_F(Memory, ConcurrentUseLosesNothing) {
  const int device = new_device();
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      DeviceScope scope(device);
      for (int i = 0; i < kRounds; ++i) at::empty({64 + i}, at::kByte);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory_use(device).total(), 0);
  EXPECT_GE(memory_use(device).peak, 64 + kRounds - 1);
  EXPECT_LE(memory_use(device).peak, kThreads * (64 + kRounds));
}

TEST_F(Memory, LimitRefusesTheAllocationAndDescribesHeldMemory) {
  const int device = new_device();
  set_memory_limit(device, 8 * kMiB);
  {
    DeviceScope scope(device);
    MemoryScope weights(MemoryCategory::weights);
    at::Tensor weight = mebibytes(5);
    expect_error(Blame::run,
                 {"device " + std::to_string(device), "allocation of 4.00 MiB", "device_memory = 8.00 MiB",
                  "it holds weights 5.00 MiB", "smaller batch"},
                 [] { mebibytes(4); });
    EXPECT_EQ(memory_use(device).total(), 5 * kMiB) << "the refused allocation was counted";
    EXPECT_EQ(memory_use(device).peak, 5 * kMiB);
    at::Tensor fits = mebibytes(3);
    expect_error(Blame::run, {"device_memory"}, [] { mebibytes(1); });
    set_memory_limit(device, 0);
    mebibytes(100);
  }
  EXPECT_EQ(memory_use(device).total(), 0);
}

TEST_F(Memory, ErrorOfTheLimitPassesThroughBackward) {
  const int device = new_device();
  DeviceScope scope(device);
  at::AutoGradMode grad(true);
  at::Tensor x = at::ones({1 << 20}, at::kFloat).requires_grad_();
  at::Tensor loss = (x * x).sum();
  set_memory_limit(device, memory_use(device).total() + kMiB);
  expect_error(Blame::run, {"device_memory", "activations"}, [&] { loss.backward(); });
  set_memory_limit(device, 0);
}

TEST_F(Memory, ChargesByHandCountAndRespectTheLimit) {
  const int device = new_device();
  charge_memory(device, MemoryCategory::weights, 3 * kMiB);
  EXPECT_EQ(held(device, MemoryCategory::weights), 3 * kMiB);
  EXPECT_EQ(memory_use(device).peak, 3 * kMiB);
  set_memory_limit(device, 4 * kMiB);
  expect_error(Blame::run, {"device_memory"}, [&] { charge_memory(device, MemoryCategory::gradients, 2 * kMiB); });
  charge_memory(device, MemoryCategory::weights, -3 * kMiB);
  EXPECT_EQ(memory_use(device).total(), 0);
}

TEST_F(Memory, DataKeepLibtorchsAlignmentAndContents) {
  DeviceScope scope(new_device());
  for (int64_t bytes : {1, 63, 64, 65, 4096, 1'000'003}) {
    at::Tensor tensor = at::full({bytes}, 7, at::kByte);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u);
    tensor.resize_({bytes * 2});
    EXPECT_EQ(tensor[bytes - 1].item<int>(), 7);
  }
  EXPECT_EQ(at::empty({0}).numel(), 0);
}

TEST_F(Memory, RawAllocationsAreCountedToo) {
  const int device = new_device();
  void* block = nullptr;
  {
    DeviceScope scope(device);
    block = c10::GetCPUAllocator()->raw_allocate(1000);
  }
  EXPECT_EQ(memory_use(device).total(), 1000);
  c10::GetCPUAllocator()->raw_deallocate(block);
  EXPECT_EQ(memory_use(device).total(), 0);
  c10::GetCPUAllocator()->raw_deallocate(nullptr);
}

TEST_F(Memory, BlocksOfOtherAllocatorsAreCountedUntilTheyAreForgotten) {
  const int owner = new_device();
  constexpr uintptr_t kOne = 4096, kTwo = 8192;
  {
    DeviceScope device(owner);
    MemoryScope weights(MemoryCategory::weights);
    note_block(kOne, 3 * kMiB);
    note_block(kTwo, 2 * kMiB);
    set_memory_limit(owner, 4 * kMiB);
    EXPECT_THROW(check_memory_limit(), MemoryLimitError);
  }
  check_memory_limit();  // this thread works for no device
  EXPECT_EQ(held(owner, MemoryCategory::weights), 5 * kMiB);
  forget_block(kOne);  // by any thread
  EXPECT_EQ(memory_use(owner).total(), 2 * kMiB);
  EXPECT_EQ(memory_use(owner).peak, 5 * kMiB);
  DeviceScope device(owner);
  check_memory_limit();
  forget_block(kTwo);
  forget_block(kTwo);  // unknown blocks were noted outside any device
  EXPECT_EQ(memory_use(owner).total(), 0);
  set_memory_limit(owner, 0);
}

TEST_F(Memory, PlacesLastAsLongAsTheirObject) {
  EXPECT_TRUE(place_of(7).is_cpu());
  {
    const PlacedDevices outer(6, {c10::DeviceType::CPU, c10::Device(c10::DeviceType::Meta)});
    EXPECT_EQ(place_of(7), c10::Device(c10::DeviceType::Meta));
    {
      const PlacedDevices inner(7, {c10::Device(c10::DeviceType::CPU)});
      EXPECT_TRUE(place_of(7).is_cpu());
    }
    EXPECT_EQ(place_of(7), c10::Device(c10::DeviceType::Meta));
    EXPECT_TRUE(place_of(kNoDevice).is_cpu());
  }
  EXPECT_TRUE(place_of(7).is_cpu());
}

TEST_F(Memory, UnknownDevicesAreRefused) {
  expect_error(Blame::run, {"device 256"}, [] { memory_use(kMaxDevices); });
  expect_error(Blame::run, {"device -2"}, [] { DeviceScope scope(-2); });
}

TEST(MemoryText, DescribesHeldMemory) {
  MemoryUse use;
  EXPECT_EQ(describe_memory(use), "nothing");
  use.current[size_t(MemoryCategory::weights)] = 2 * kMiB;
  use.current[size_t(MemoryCategory::buffers)] = 512;
  EXPECT_EQ(describe_memory(use), "weights 2.00 MiB, buffers 512 B");
}

}  // namespace
}  // namespace trireme
