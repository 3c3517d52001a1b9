// Replaces mpi_engine.cpp, mpi_keys.cpp and mpi_transport.cpp in a build without MPI.
#include "comm/mpi/mpi_transport.h"
#include "trireme/error.h"

namespace trireme {

bool mpi_available() { return false; }

Connections connect_over_mpi(const WorldOptions&) {
  fail_run({.where = "backend mpi",
            .what = "this build of trireme has no MPI",
            .why = "none was found when it was configured",
            .next = "install libopenmpi-dev (or your site's MPI) and build again, or use the backend gloo"});
}

void expect_no_end_of_mpi() {}

}  // namespace trireme
