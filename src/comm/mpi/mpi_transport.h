// What the mpi backend's communicator needs from MPI, without its header.
#pragma once

#include "comm/mpi/mpi.h"
#include "trireme/backend.h"

namespace trireme {

/// See mpi_communicator.
Connections connect_over_mpi(const WorldOptions& options);

/// Declares a failure: at its end, this process waits at most a few seconds for the other ranks.
void expect_no_end_of_mpi();

}  // namespace trireme
