// Backend `mpi`: workers are processes that mpirun or srun started, connected by the site's own MPI. It brings networks
// that gloo's TCP does not know (InfiniBand, shared memory).
#pragma once

#include <memory>

#include "comm/process/world_options.h"
#include "trireme/communicator.h"

namespace trireme {

/// Whether this build has the backend.
bool mpi_available();

/// Connects to the other ranks. All of them must make their communicators in the same order; a process may make
/// several. Only messages between two ranks are MPI's: collectives, their checks and counts are those of the gloo
/// backend, so that results have the same bits. MPI is started by the first call and ended when the process ends; all
/// calls to it are made by one thread of its own (MPI_THREAD_FUNNELED suffices).
///
/// Errors (user): a process that no MPI launcher started, or that MPI counts otherwise. Run errors: ranks that did not
/// come in time, a backend that is missing from this build. abort() reaches all ranks. A rank that dies is for MPI to
/// notice: its launcher ends all others. A frozen one is noticed as with gloo (mpi_keys.h), where all ranks reach rank
/// 0 over TCP too; rank 0 logs a warning where one does not, and then of two ranks that abort at once each may keep its
/// own reason.
///
/// Destruction as of gloo_communicator.
std::unique_ptr<Communicator> mpi_communicator(const WorldOptions& options);

}  // namespace trireme
