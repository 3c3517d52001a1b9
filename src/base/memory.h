// Tensor memory per device, also on the CPU. Every allocation by libtorch's CPU allocator is attributed to the device
// (worker) and the category that are current in the allocating thread. It is subtracted when the tensor is freed, by
// any thread. Memory that kernels take directly from malloc (oneDNN's scratch pads) is not counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/devices/device.h"
#include "trireme/error.h"

namespace trireme {

enum class MemoryCategory { weights, gradients, optimizer, activations, buffers };
constexpr int kMemoryCategories = 5;
const char* name_of(MemoryCategory category);

/// Bytes on one device. `peak` is the highest sum over categories; `at_peak` is its split at that moment.
struct MemoryUse {
  std::array<int64_t, kMemoryCategories> current{};
  std::array<int64_t, kMemoryCategories> at_peak{};
  int64_t peak = 0;
  int64_t total() const;
};

/// Puts the accounting allocator in front of libtorch's CPU allocator. Idempotent. Call it before workers start.
void install_memory_accounting();

/// While it exists, allocations of this thread belong to `category` (default: activations). Scopes nest.
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

/// A run error of its own type, so that callers can tell "does not fit" from other failures.
class MemoryLimitError : public Error {
 public:
  using Error::Error;
};

/// Sets the limit of `device` in bytes; 0 means no limit. An allocation that would exceed it throws a MemoryLimitError,
/// which lists the memory in use.
void set_memory_limit(int device, int64_t bytes);

/// Adds (positive) or subtracts (negative) bytes by hand, for memory that several devices share (one copy of the
/// weights). Checks the limit like an allocation.
void charge_memory(int device, MemoryCategory category, int64_t bytes);

/// Counts a block of another allocator (that of a GPU), which must call forget_block() when it frees the block.
/// `address` identifies the block. Neither checks the limit nor throws: the allocating thread calls
/// check_memory_limit() afterwards.
void note_block(uintptr_t address, int64_t bytes) noexcept;
void forget_block(uintptr_t address) noexcept;

/// Throws a MemoryLimitError if this thread's device holds more than its limit, which noted blocks may cause.
void check_memory_limit();

/// "weights 1.2 GiB, gradients 0.6 GiB, ..." for messages.
std::string describe_memory(const MemoryUse& use);

}  // namespace trireme
