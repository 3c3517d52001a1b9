// Tensor memory per device, true on the CPU too: every allocation that libtorch's CPU allocator makes is attributed to
// the device (worker) and category current in the allocating thread, and given back when the tensor is freed, by
// whichever thread. What kernels take from malloc themselves (oneDNN's scratch pads) is not seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "trireme/error.h"

namespace trireme {

enum class MemoryCategory { weights, gradients, optimizer, activations, buffers };
constexpr int kMemoryCategories = 5;
const char* name_of(MemoryCategory category);

/// Bytes on one device. `peak` is the highest sum over categories; `at_peak` its split at that moment.
struct MemoryUse {
  std::array<int64_t, kMemoryCategories> current{};
  std::array<int64_t, kMemoryCategories> at_peak{};
  int64_t peak = 0;
  int64_t total() const;
};

constexpr int kMaxDevices = 256;
constexpr int kNoDevice = -1;  ///< allocations outside any worker: counted nowhere

/// Puts the accounting allocator in front of libtorch's CPU allocator. Idempotent; call it before workers start.
void install_memory_accounting();

/// While alive, allocations of this thread belong to `device`. Nests.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  /// Of this thread; kNoDevice outside of every scope.
  static int current();

 private:
  int previous_;
};

/// While alive, allocations of this thread belong to `category` (default: activations). Nests.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};

/// Thread-safe. Devices are 0..kMaxDevices-1.
MemoryUse memory_use(int device);
void reset_memory_peak(int device);

/// A run error of its own type, so that "does not fit" can be told from other failures.
class MemoryLimitError : public Error {
 public:
  using Error::Error;
};

/// An allocation that would take `device` past `bytes` throws a MemoryLimitError that lists what held the memory. 0: no
/// limit.
void set_memory_limit(int device, int64_t bytes);

/// Attributes memory that several devices share (one copy of the weights) by hand: positive to add, negative to give
/// back. Checks the limit like an allocation.
void charge_memory(int device, MemoryCategory category, int64_t bytes);

/// "weights 1.2 GiB, gradients 0.6 GiB, ..." for messages.
std::string describe_memory(const MemoryUse& use);

}  // namespace trireme
