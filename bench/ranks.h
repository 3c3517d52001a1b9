// Benchmarks whose ranks are processes.
#pragma once

#include <memory>
#include <string>

#include "trireme/communicator.h"

namespace trireme {

/// Over all processes that mpirun, torchrun's variables or the like say there are, behind TRIREME_TOKEN; null: there is
/// one. `backend`: gloo or mpi. Errors: as those of comm/gloo/gloo.h and comm/mpi/mpi.h.
std::unique_ptr<Communicator> ranks_of_bench(const std::string& backend);

}  // namespace trireme
