// Work of a device, recorded once and replayed with one call: a CUDA graph.
#pragma once

#include <memory>

namespace trireme {

/// Used by one thread, which must have a RecordingStream from before record() on.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Begins a recording. Until end(), the operators that this thread launches on its device are recorded and not
  /// computed. Memory of tensors that are allocated meanwhile stays reserved for replays.
  virtual void record() = 0;
  virtual void end() = 0;
  /// Ends a recording that failed. Never throws.
  virtual void give_up() noexcept = 0;
  /// Computes the recorded operators, on the same memory. Does not wait for the device.
  virtual void replay() = 0;
};

/// While it exists, this thread's device computes on a stream that can be recorded, and cuDNN searches for the fastest
/// algorithms. Begins and ends with a wait for the device.
class RecordingStream {
 public:
  virtual ~RecordingStream() = default;
};

/// Return null where this thread's device cannot record: on the CPU, or if this build has no CUDA.
std::unique_ptr<RecordingStream> make_recording_stream();
std::unique_ptr<DeviceGraph> make_device_graph();

}  // namespace trireme
