// Memory of the strict device. Only strict_device.cpp needs this header; tests use strict_device.h.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>
#include <vector>

namespace trireme::test {

struct StrictBlock;

/// Blocks that kernels and copies may touch while this object exists. Several objects may hold the same block.
class OpenBlocks {
 public:
  OpenBlocks() = default;
  ~OpenBlocks();
  OpenBlocks(const OpenBlocks&) = delete;
  OpenBlocks& operator=(const OpenBlocks&) = delete;

  /// Opens the block around `address`; null is allowed. Throws c10::Error if there is none.
  void open(const void* address);

 private:
  std::vector<std::shared_ptr<StrictBlock>> blocks_;
};

/// The device of this thread's allocations, as cudaGetDevice.
int current_strict_device() noexcept;
void set_current_strict_device(int index) noexcept;

c10::Allocator* strict_allocator();

/// Reserves addresses and handles SIGSEGV. Call it once.
void install_strict_memory();

}  // namespace trireme::test
