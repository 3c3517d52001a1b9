// Replaces the other files of this folder if libtorch has no CUDA or NCCL's header is missing.
#include "comm/nccl/nccl.h"
#include "trireme/error.h"

namespace trireme {

bool nccl_available() { return false; }
std::string nccl_version() { return ""; }
std::string nccl_obstacle() { return "this build has no NCCL: its libtorch has no CUDA, or nccl.h was missing"; }

std::shared_ptr<DeviceLinks> nccl_links(c10::Device) {
  fail_run({"backend nccl", nccl_obstacle(), "", "use another backend: gloo, or mpi"});
}

}  // namespace trireme
