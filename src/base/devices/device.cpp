#include "base/devices/device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "base/devices/gpu.h"
#include "base/seconds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

thread_local int current_device = kNoDevice;

/// Type and index of a libtorch device in one number, so that threads may read while others begin and end.
constexpr int32_t kIndexBits = 8, kNoIndex = 255;
std::array<std::atomic<int32_t>, kMaxDevices> places{};  // 0 is the CPU
static_assert(int32_t(c10::DeviceType::CPU) == 0);

int32_t number_of(c10::Device device) {
  if (device.is_cpu()) return 0;
  return (int32_t(device.type()) << kIndexBits) | (device.has_index() ? int32_t(device.index()) : kNoIndex);
}

c10::Device device_of(int32_t number) {
  const auto type = c10::DeviceType(number >> kIndexBits);
  const int32_t index = number & kNoIndex;
  if (number == 0) return c10::DeviceType::CPU;
  return index == kNoIndex ? c10::Device(type) : c10::Device(type, c10::DeviceIndex(index));
}

std::vector<c10::Device> place(int first, const std::vector<c10::Device>& next) {
  std::vector<c10::Device> before;
  for (size_t i = 0; i < next.size(); ++i)
    before.push_back(device_of(places.at(size_t(first) + i).exchange(number_of(next[i]))));
  return before;
}

}  // namespace

DeviceScope::DeviceScope(int device) : previous_(current_device) {
  if (device < kNoDevice || device >= kMaxDevices)
    check_internal(false, fmt::format("device {} was requested; the devices are 0..{}", device, kMaxDevices - 1));
  current_device = device;
  if (const c10::Device place = place_of(device); !place.is_cpu()) guard_.reset_device(place);
}

DeviceScope::~DeviceScope() { current_device = previous_; }

int DeviceScope::current() { return current_device; }

PlacedDevices::PlacedDevices(int first, std::vector<c10::Device> places)
    : first_(first), before_(place(first, places)) {}

PlacedDevices::~PlacedDevices() { place(first_, before_); }

c10::Device place_of(int device) {
  return device == kNoDevice ? c10::Device(c10::DeviceType::CPU) : device_of(places.at(size_t(device)));
}

c10::Device worker_place() { return place_of(DeviceScope::current()); }

at::TensorOptions on_worker(at::ScalarType type) { return at::TensorOptions().dtype(type).device(worker_place()); }

void await_device() {
  // A copy to the host waits for what the stream has been given before. Older libtorch has no call for all devices.
  if (!worker_place().is_cpu()) at::zeros({1}, on_worker(at::kByte)).to(at::kCPU);
}

DeviceMoment::DeviceMoment() {
  if (worker_place().is_cuda()) {
    event_ = record_gpu_event();
    return;
  }
  await_device();
  seconds_ = steady_seconds();
}

double DeviceMoment::seconds_since(const DeviceMoment& earlier) const {
  check_internal(!event_ == !earlier.event_, "two moments of one device are compared");
  return event_ ? gpu_seconds_between(earlier.event_, event_) : seconds_ - earlier.seconds_;
}

std::vector<c10::Device> placed_gpus() {
  std::vector<c10::Device> found;
  for (int device = 0; device < kMaxDevices; ++device) {
    const c10::Device place = place_of(device);
    if (!place.is_cpu() && std::find(found.begin(), found.end(), place) == found.end()) found.push_back(place);
  }
  return found;
}

}  // namespace trireme
