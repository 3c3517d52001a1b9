// Internal to predict_memory: counts allocated and released bytes.
#pragma once

#include <memory>

#include "base/memory.h"

namespace trireme {

/// One worker's memory, counted as base/memory.h counts a device's memory.
class MemoryTally {
 public:
  /// Negative `bytes` are a release.
  void add(MemoryCategory category, int64_t bytes) {
    use_.current[size_t(category)] += bytes;
    total_ += bytes;
    if (total_ <= use_.peak) return;
    use_.peak = total_;
    use_.at_peak = use_.current;
  }
  /// Counts bytes that are allocated and released at once.
  void pass(MemoryCategory category, int64_t bytes) {
    add(category, bytes);
    add(category, -bytes);
  }
  const MemoryUse& use() const { return use_; }

 private:
  MemoryUse use_;
  int64_t total_ = 0;
};

/// A tensor's storage. Its bytes are released when its last owner releases it. The tally must outlive it.
class Storage {
 public:
  Storage(MemoryTally& tally, MemoryCategory category, int64_t bytes)
      : tally_(tally), category_(category), bytes_(bytes) {
    tally_.add(category_, bytes_);
  }
  ~Storage() { tally_.add(category_, -bytes_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  int64_t bytes() const { return bytes_; }

 private:
  MemoryTally& tally_;
  const MemoryCategory category_;
  const int64_t bytes_;
};

/// Represents a tensor; null represents an undefined tensor.
using Held = std::shared_ptr<const Storage>;

inline Held allocate(MemoryTally& tally, MemoryCategory category, int64_t bytes) {
  return std::make_shared<const Storage>(tally, category, bytes);
}

}  // namespace trireme
