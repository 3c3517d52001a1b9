// The place of this process among the ranks, read from the variables of its launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/backend.h"

namespace trireme {

/// Returns the value of an environment variable, or nullopt if it is not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables environment();

struct PlaceOptions {
  bool needs_address = true;  ///< false if ranks find each other otherwise (MPI): address and port are left out
  bool even_alone = false;    ///< true: a run of one process has a place too
};

/// Reads, in this order: RANK and WORLD_SIZE (torchrun, trireme launch), OMPI_COMM_WORLD_* (Open MPI), PMI_RANK and
/// PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID in a step of srun. MASTER_ADDR and MASTER_PORT take precedence over the
/// launcher's own information about the rendezvous. If all ranks are on one machine, they use its loopback interface
/// whatever MASTER_ADDR says, unless torchrun hosts the store. Returns nullopt if no launcher has set its variables, or
/// if there is only one process. Errors (user): invalid or contradictory numbers; several machines without an address.
std::optional<ProcessPlace> process_place(const Variables& variables = environment(), const PlaceOptions& options = {});

/// True on the process that reports for all processes that a launcher started with the same command: rank 0, or under
/// torchrun (which is started on each machine) local rank 0. Also true if the number is invalid. Never throws, because
/// it is called before any check.
bool reports_for_command(const Variables& variables = environment());

/// Returns the first host of a Slurm list: "n1" of "n[1-3,7],m2". Leading zeros of a number are kept.
std::string first_host(const std::string& node_list);

}  // namespace trireme
