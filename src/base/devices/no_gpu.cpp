// libtorch here has no CUDA.
#include "base/devices/gpu.h"

namespace trireme {

std::vector<Gpu> visible_gpus() { return {}; }
bool has_peer_access(int, int) { return false; }
std::string cuda_versions() { return ""; }
void install_gpu_memory_accounting() {}

}  // namespace trireme
