// Backend `mpi`: workers are processes that mpirun or srun started, connected by the site's own MPI. It supports
// networks that gloo's TCP does not (InfiniBand, shared memory).
#pragma once

#include <memory>

#include "comm/process/world_options.h"
#include "trireme/communicator.h"

namespace trireme {

/// True if this build has the backend.
bool mpi_available();

/// Connects to the other ranks. All ranks must make their communicators in the same order; a process may make several.
/// MPI transfers only messages between two ranks; collectives, their checks and counts are those of the gloo backend,
/// so results have the same bits. The first call starts MPI; it ends with the process. One dedicated thread makes all
/// calls to MPI (MPI_THREAD_FUNNELED suffices).
///
/// Errors (user): the process was not started by an MPI launcher, or MPI gives it another rank or size. Run errors:
/// ranks that did not arrive in time, a build without the backend. abort() reaches all ranks. MPI itself detects a rank
/// that dies: its launcher ends all other ranks. A frozen rank is detected as with gloo (mpi_keys.h), provided that all
/// ranks also reach rank 0 over TCP. If one does not, rank 0 logs a warning; then, if two ranks abort at once, each may
/// report its own reason.
///
/// The destructor waits as that of gloo_communicator.
std::unique_ptr<Communicator> mpi_communicator(const WorldOptions& options);

}  // namespace trireme
