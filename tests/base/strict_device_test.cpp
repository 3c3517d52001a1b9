#include "support/strict_device.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strict_operator.h"

namespace trireme::test {
namespace {

void read(const at::Tensor& t) { (void)*static_cast<volatile float*>(t.data_ptr()); }

using StrictDeviceDeathTest = StrictDevice;

TEST_F(StrictDeviceDeathTest, HostAccessEndsTheProcess) {
  at::Tensor t = at::ones({4}, strict_device(2));
  EXPECT_DEATH(read(t), "host touched memory of device 2 at a place where no kernel runs");
  EXPECT_DEATH(*static_cast<volatile float*>(t.data_ptr()) = 1, "host touched memory of device 2");
  t.add_(1);
  EXPECT_THROW(t.mm(t), c10::Error);
  EXPECT_DEATH(read(t), "host touched memory of device 2");
  const float* freed = t.data_ptr<float>();
  t.reset();
  EXPECT_DEATH((void)*static_cast<const volatile float*>(freed), "host touched memory of device 2");
}

TEST_F(StrictDeviceDeathTest, OtherFaultsHaveTheFormerAction) {
  void* page = mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_DEATH((void)*static_cast<volatile char*>(page), testing::Not(testing::HasSubstr("strict device")));
}

/// The message of the c10::Error that `body` throws.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST_F(StrictDevice, MixedDevicesThrow) {
  const at::Tensor cpu = rand({3}), one = cpu.to(strict_device(1)), two = cpu.to(strict_device(2));
  const auto expect_mix = [](const std::function<void()>& body) {
    EXPECT_THAT(error_of(body), testing::HasSubstr("same device"));
  };
  expect_mix([&] { one + two; });
  expect_mix([&] { one + cpu; });
  expect_mix([&] { cpu + one; });
  expect_mix([&] { cpu.clone().add_(one); });
  expect_mix([&] { at::scalar_tensor(1.0).add_(one.sum()); });
  expect_mix([&] { at::cat({one, cpu}); });
  expect_mix([&] { at::where(one > 0, one, cpu); });
  expect_mix([&] { cpu.index_select(0, at::zeros({1}, one.options().dtype(at::kLong))); });
  expect_mix([&] { at::add_out(const_cast<at::Tensor&>(cpu), one, one); });
  EXPECT_EQ(
      error_of([&] { one* two; }),
      "strict device: aten::mul.Tensor mixes tensors of privateuseone:1 and of privateuseone:2; expected all tensors "
      "to be on the same device");
  EXPECT_NO_THROW(one + at::scalar_tensor(2.0));
  EXPECT_THAT(error_of([] { at::empty({1}, strict_device(kStrictDevices)); }), testing::HasSubstr("there is no"));
}

TEST_F(StrictDevice, CopiesGoBetweenDevicesTypesAndStrides) {
  const at::Tensor cpu = rand({4, 6});
  const at::Tensor one = cpu.to(strict_device(1)), two = one.to(strict_device(2));
  EXPECT_EQ(two.device(), strict_device(2));
  at::Tensor target = at::zeros({6, 4}, two.options().dtype(at::kDouble));
  target.copy_(one.t());
  EXPECT_TRUE(target.cpu().equal(cpu.t().to(at::kDouble)));
  at::Tensor wide = at::zeros({4, 12});
  wide.slice(1, 0, 12, 2).copy_(two);
  EXPECT_TRUE(wide.slice(1, 0, 12, 2).equal(cpu));
  target.narrow(0, 1, 2).copy_(cpu[0].narrow(0, 0, 4));
  EXPECT_TRUE(target[2].cpu().equal(cpu[0].narrow(0, 0, 4).to(at::kDouble)));
  EXPECT_EQ(at::_copy_from_and_resize(one, at::empty({0}, one.options())).sizes(), cpu.sizes());
}

TEST_F(StrictDevice, InferenceTensorsAndOthersMix) {
  const at::Tensor cpu = rand({4, 6});
  at::Tensor normal = cpu.to(strict_device(1)), inference;
  {
    const c10::InferenceMode mode;
    inference = normal * 2;
    normal.narrow(0, 0, 2).add_(inference.narrow(0, 1, 2));
    inference.t().mul_(3);
  }
  EXPECT_TRUE(inference.is_inference());
  EXPECT_FALSE(normal.is_inference());
  at::Tensor expected = cpu.clone();
  expected.narrow(0, 0, 2).add_((cpu * 2).narrow(0, 1, 2));
  EXPECT_TRUE(normal.cpu().equal(expected));
  EXPECT_TRUE((inference + normal).cpu().equal(cpu * 2 * 3 + expected));
}

TEST_F(StrictDevice, TheCurrentDeviceIsTheThreads) {
  const c10::DeviceGuard guard(strict_device(3));
  EXPECT_EQ(at::empty({1}, c10::Device(c10::DeviceType::PrivateUse1)).device(), strict_device(3));
  std::thread([] {
    EXPECT_EQ(at::empty({1}, c10::Device(c10::DeviceType::PrivateUse1)).device(), strict_device(0));
  }).join();
}

TEST_F(StrictDevice, CountsSynchronisations) {
  const at::Tensor t = at::ones({3}, strict_device(0));
  int64_t before = strict_synchronisations();
  const auto waits = [&] { return strict_synchronisations() - std::exchange(before, strict_synchronisations()); };
  (t + 1).mul_(2).copy_(at::zeros({3}));
  t.to(strict_device(1));
  EXPECT_EQ(waits(), 0);
  t.sum().item<float>();
  EXPECT_EQ(waits(), 1);
  t.cpu();
  EXPECT_EQ(waits(), 1);
  t.equal(t);
  EXPECT_EQ(waits(), 1);
  t.index({t > 0});
  EXPECT_EQ(waits(), 1);
}

TEST_F(StrictDevice, CountsBytes) {
  reset_strict_peak(1);
  at::Tensor a = at::empty({1000}, strict_device(1));
  EXPECT_EQ(strict_bytes(1), 4000);
  const at::Tensor view = a.narrow(0, 10, 10);
  at::Tensor b = a + 1;
  b.reset();
  a.reset();
  EXPECT_EQ(strict_bytes(1), 4000);
  EXPECT_EQ(strict_peak_bytes(1), 8000);
  EXPECT_EQ(strict_bytes(0), 0);
}

/// A loss and the gradients of all but the first two arguments: images and labels.
Tensors train_once(Ts t) {
  const at::AutoGradMode enabled(true);
  for (size_t i = 2; i < t.size(); ++i) t[i].requires_grad_(true);
  at::Tensor x = at::conv2d(t[0], t[2], t[3], 1, 1).relu();
  x = at::layer_norm(at::max_pool2d(x, {2, 2}).flatten(1), {64});
  const at::Tensor loss = at::cross_entropy_loss(at::linear(x, t[4], t[5]), t[1]);
  loss.backward();
  Tensors all = {loss.detach()};
  for (size_t i = 2; i < t.size(); ++i) all.push_back(t[i].grad().detach());
  return all;
}

OperatorCase training() {
  return {"training",
          {image(), at::tensor({1, 4}, at::kLong), rand({4, 6, 3, 3}), rand({4}), rand({5, 64}), rand({5})},
          train_once};
}

TEST_F(StrictDevice, AutogradWorks) { check(training()); }

TEST_F(StrictDevice, AutogradSeesWritesThroughViews) {
  check({"views", {rand({4, 6}), rand({6})}, [](Ts t) -> Tensors {
           at::Tensor weight = t[1].requires_grad_(true), x = t[0] * 1;
           x.select(0, 2).mul_(weight);
           x.narrow(1, 0, 3).add_(weight.narrow(0, 1, 3));
           x.square().sum().backward();
           const Tensors all = {weight.grad()};
           t[1] = t[1].detach();
           return all;
         }});
}

TEST_F(StrictDevice, ThreadsWorkAtOnce) {
  const at::Tensor shared = rand({64, 64}), expected = shared.mm(shared);
  const at::Tensor on_device = shared.to(strict_device(0));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int step = 0; step < 50; ++step) {
        EXPECT_TRUE(on_device.mm(on_device).cpu().equal(expected));
        at::Tensor sum = on_device.sum(0);
        for (int k = 0; k < 5; ++k) sum = sum + on_device[k];
      }
      check(training());
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace trireme::test
