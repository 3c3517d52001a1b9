// Internals of predict_memory: bytes that come and go.
#pragma once

#include <memory>

#include "base/memory.h"

namespace trireme {

/// One worker's memory, counted as base/memory.h counts a device's.
class MemoryTally {
 public:
  /// Negative: given back.
  void add(MemoryCategory category, int64_t bytes) {
    use_.current[size_t(category)] += bytes;
    total_ += bytes;
    if (total_ <= use_.peak) return;
    use_.peak = total_;
    use_.at_peak = use_.current;
  }
  /// Held for a moment.
  void pass(MemoryCategory category, int64_t bytes) {
    add(category, bytes);
    add(category, -bytes);
  }
  const MemoryUse& use() const { return use_; }

 private:
  MemoryUse use_;
  int64_t total_ = 0;
};

/// A tensor's storage: given back when the last who holds it lets go. The tally outlives it.
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

/// Stands for a tensor; null: an undefined one.
using Held = std::shared_ptr<const Storage>;

inline Held allocate(MemoryTally& tally, MemoryCategory category, int64_t bytes) {
  return std::make_shared<const Storage>(tally, category, bytes);
}

}  // namespace trireme
