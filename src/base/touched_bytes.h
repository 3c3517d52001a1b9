// Counts the memory that tensor operators read and write, from which follows how long memory-bound operators take.
#pragma once

#include <ATen/record_function.h>

namespace trireme {

/// Counts for the thread that makes it, from then until its end: bytes of the tensors that operators read, and of those
/// that they write. Views count nothing, nor do operators that another one calls, nor loops that use tensors' memory
/// themselves. One per thread; it ends on the thread that made it.
class TouchedBytes {
 public:
  TouchedBytes();
  ~TouchedBytes();
  TouchedBytes(const TouchedBytes&) = delete;
  TouchedBytes& operator=(const TouchedBytes&) = delete;

  /// Returns the bytes since the last call, or since the beginning.
  double take();

  /// While it exists, nothing is counted for this thread. Needs no TouchedBytes.
  class Paused {
   public:
    Paused();
    ~Paused();
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;
  };

 private:
  const at::CallbackHandle callback_;
};

}  // namespace trireme
