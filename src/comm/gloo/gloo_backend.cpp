#include "comm/backend_list.h"
#include "comm/gloo/gloo_transport.h"
#include "comm/process/process_communicator.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> join_gloo(const JoinOptions& options) {
  return gloo_communicator(world_options(options));
}

}  // namespace

std::unique_ptr<Communicator> gloo_communicator(const WorldOptions& options) {
  check_rank(options, kGlooBackend.name);
  return communicator_of(std::make_shared<ProcessWorld>(options, connect_ranks(options)));
}

constinit const BackendKind kGlooBackend = {
    .name = "gloo",
    .help = " (TCP, the default)",
    .purpose = "processes, over TCP",
    .processes = true,
    .start = "trireme launch -n 4 train ..., or mpirun -n 4",
    .available = gloo_available,
    .join = join_gloo,
};

}  // namespace trireme
