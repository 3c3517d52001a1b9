// libtorch here has no CUDA.
#include "runtime/graph/device_graph.h"

namespace trireme {

std::unique_ptr<RecordingStream> make_recording_stream() { return nullptr; }
std::unique_ptr<DeviceGraph> make_device_graph() { return nullptr; }

}  // namespace trireme
