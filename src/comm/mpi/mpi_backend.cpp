#include "comm/backend_kind.h"
#include "comm/mpi/mpi.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> join(const JoinOptions& options) {
  const int rank = options.place.rank;
  return mpi_communicator({.rank = rank, .size = options.place.size, .device = rank, .recorder = options.recorder});
}

}  // namespace

constinit const BackendKind kMpiBackend = {
    .name = "mpi",
    .help = " where mpirun or srun started them",
    .purpose = "processes that mpirun or srun started, over the site's MPI",
    .processes = true,
    .finds_ranks = true,
    .start = "mpirun -n 4",
    .interface_why = "MPI chooses its networks itself",
    .interface_next = "with Open MPI: mpirun --mca btl_tcp_if_include ",
    .available = mpi_available,
    .join = join,
};

}  // namespace trireme
