// What the mpi backend's communicator needs of MPI, without its header.
#pragma once

#include "comm/mpi/mpi.h"
#include "trireme/transport.h"

namespace trireme {

/// As mpi_communicator.
Connections connect_over_mpi(const WorldOptions& options);

/// After a failure: the end of this process waits some seconds at most for the other ranks.
void expect_no_end_of_mpi();

}  // namespace trireme
