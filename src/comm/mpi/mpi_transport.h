// What the mpi backend's communicator needs of MPI, without its header.
#pragma once

#include "comm/gloo/transport.h"
#include "comm/mpi/mpi.h"

namespace trireme {

/// As mpi_communicator. The keys are this process' own: an abort reaches the others as a frame.
Connections connect_over_mpi(const MpiOptions& options);

/// After a failure: the end of this process waits some seconds at most for the other ranks.
void expect_no_end_of_mpi();

}  // namespace trireme
