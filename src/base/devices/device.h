// The libtorch device behind each device (worker) of this process: cores (the CPU) or a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorOptions.h>

#include <memory>
#include <vector>

namespace trireme {

constexpr int kMaxDevices = 256;
constexpr int kNoDevice = -1;  ///< of a thread that is no worker's; its allocations are not counted

/// While it exists, this thread works for `device`: its allocations are counted there (base/memory.h), and where that
/// device computes is libtorch's current device. Scopes nest.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  /// The device of this thread, or kNoDevice outside any scope.
  static int current();

 private:
  int previous_;
  c10::OptionalDeviceGuard guard_;
};

/// While it exists, the devices first, first + 1, ... of this process compute on these libtorch devices. All others
/// compute on the CPU. Make it before the threads of these devices begin, and destroy it after they have ended.
class PlacedDevices {
 public:
  PlacedDevices(int first, std::vector<c10::Device> places);
  ~PlacedDevices();
  PlacedDevices(const PlacedDevices&) = delete;
  PlacedDevices& operator=(const PlacedDevices&) = delete;

 private:
  const int first_;
  const std::vector<c10::Device> before_;
};

/// Returns where device `device` of this process computes; the CPU for kNoDevice. Thread-safe.
c10::Device place_of(int device);
/// The same of this thread's DeviceScope.
c10::Device worker_place();

/// Options of a tensor of this thread's worker: weights, activations, gradients and state. Data on which the host
/// decides (numbers of samples, shapes, text) stay on the CPU and do not use this.
at::TensorOptions on_worker(at::ScalarType type);

/// Returns when this thread's device has computed all that this thread asked of it. At once on the CPU.
void await_device();

/// A moment in the work of this thread's device. On the CPU it is now; on a GPU it is when all that this thread has
/// asked for so far is computed. Making one does not wait. (Devices of tests wait: they have no events.)
class DeviceMoment {
 public:
  DeviceMoment();
  /// Waits for this moment. `earlier` is a moment of the same device.
  double seconds_since(const DeviceMoment& earlier) const;

 private:
  double seconds_ = 0;           // of the steady clock, on the CPU
  std::shared_ptr<void> event_;  // on a GPU
};

/// Returns the GPUs on which devices of this process are placed now, each once; empty: all compute on the CPU.
std::vector<c10::Device> placed_gpus();

/// True if the host can read and write the tensor's memory.
inline bool on_host(const at::Tensor& tensor) { return tensor.device().is_cpu(); }

}  // namespace trireme
