// For builds whose libtorch has no CUDA: nothing can be recorded.
#include "runtime/graph/device_graph.h"

namespace trireme {

std::unique_ptr<RecordingStream> make_recording_stream() { return nullptr; }
std::unique_ptr<DeviceGraph> make_device_graph() { return nullptr; }

}  // namespace trireme
