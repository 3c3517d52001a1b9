#include "comm/backend_list.h"
#include "comm/direct/direct_communicator.h"
#include "comm/gloo/gloo.h"
#include "comm/nccl/nccl.h"
#include "comm/process/world_options.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> join_nccl(const JoinOptions& options) {
  return gloo_communicator(world_options(options));
}

std::unique_ptr<Communicator> send_by_nccl(std::unique_ptr<Communicator> control, c10::Device gpu) {
  return direct_communicator(std::move(control), nccl_links(gpu));
}

}  // namespace

constinit const BackendKind kNcclBackend = {
    .name = "nccl",
    .help = " (from GPU to GPU)",
    .purpose = "processes that drive a GPU each",
    .processes = true,
    .start = "trireme launch -n 4 train ... --device cuda, or mpirun -n 4",
    .available = nccl_available,
    .join = join_nccl,
    .between_gpus = send_by_nccl,
};

}  // namespace trireme
