// Counts the memory that tensor operators read and write, from which follows how long memory-bound operators take.
#pragma once

#include <ATen/record_function.h>

namespace trireme {

/// During its lifetime, counts for the thread that created it: bytes of the tensors that operators read, and of those
/// that they write. Not counted are views, operators that another operator calls, and loops that access tensors' memory
/// without an operator. At most one per thread; it must be destroyed on the thread that created it.
class TouchedBytes {
 public:
  TouchedBytes();
  ~TouchedBytes();
  TouchedBytes(const TouchedBytes&) = delete;
  TouchedBytes& operator=(const TouchedBytes&) = delete;

  /// Returns the bytes since the last call, or since the beginning.
  double take();

  /// While it exists, nothing is counted for this thread. The thread may, but need not, have a TouchedBytes.
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
