// libtorch here has no CUDA.
#include "base/devices/gpu.h"

#include "trireme/error.h"

namespace trireme {

std::vector<Gpu> visible_gpus() { return {}; }
bool has_peer_access(int, int) { return false; }
std::string cuda_versions() { return ""; }
void install_gpu_memory_accounting() {}
int64_t library_memory_bytes() { return 0; }
void take_library_memory() {}
std::shared_ptr<void> record_gpu_event() {
  check_internal(false, "events are of GPUs, and this build has no CUDA");
  return nullptr;
}
double gpu_seconds_between(const std::shared_ptr<void>&, const std::shared_ptr<void>&) { return 0; }
std::shared_ptr<void> use_side_stream() { return nullptr; }
void continue_after(const std::shared_ptr<void>&) {}
void keep_for_current_stream(const at::Tensor&) {}
void release_kept_gpu_memory() {}

}  // namespace trireme
