// Replaces c10d_nccl.cpp if libtorch has no CUDA or NCCL's header is missing.
#include "comm/nccl/nccl.h"
#include "trireme/error.h"

namespace trireme {

bool nccl_available() { return false; }
int nccl_gpus() { return 0; }

std::unique_ptr<Communicator> nccl_communicator(const NcclOptions&) {
  fail_run({.where = "backend nccl",
            .what = "this build of trireme has no NCCL",
            .why = "it was configured with a libtorch without CUDA, or without NCCL's header",
            .next = "configure it with a CUDA libtorch in CMAKE_PREFIX_PATH and the NCCL of its version, or use the "
                    "backend gloo"});
}

}  // namespace trireme
