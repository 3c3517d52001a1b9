// For benchmarks whose ranks are processes.
#pragma once

#include <memory>
#include <string>

#include "trireme/communicator.h"

namespace trireme {

/// A communicator over all processes that the launcher's variables (mpirun, torchrun or the like) give, protected by
/// TRIREME_TOKEN; null if there is one process. `backend`: gloo or mpi. Errors: as those of comm/gloo/gloo.h and
/// comm/mpi/mpi.h.
std::unique_ptr<Communicator> ranks_of_bench(const std::string& backend);

}  // namespace trireme
