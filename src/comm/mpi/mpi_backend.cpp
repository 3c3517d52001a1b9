#include "comm/backend_list.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/process/process_communicator.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> join_mpi(const JoinOptions& options) {
  const int rank = options.place.rank;
  return mpi_communicator({.rank = rank, .size = options.place.size, .device = rank, .recorder = options.recorder});
}

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(const WorldOptions& options) {
  check_rank(options, kMpiBackend.name);
  return communicator_of(
      std::shared_ptr<ProcessWorld>(new ProcessWorld(options, connect_over_mpi(options)), [](ProcessWorld* ended) {
        if (!ended->abort_reason().empty()) expect_no_end_of_mpi();
        delete ended;
      }));
}

constinit const BackendKind kMpiBackend = {
    .name = "mpi",
    .help = " (when mpirun or srun started them)",
    .purpose = "processes that mpirun or srun started, over the site's MPI",
    .processes = true,
    .finds_ranks = true,
    .start = "mpirun -n 4",
    .interface_why = "MPI chooses its networks itself",
    .interface_next = "with Open MPI: mpirun --mca btl_tcp_if_include ",
    .available = mpi_available,
    .join = join_mpi,
};

}  // namespace trireme
