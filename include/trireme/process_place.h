// Which rank of how many this process is, as whoever started it says in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trireme {

struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;        ///< among the ranks of its machine
  std::string address = "";  ///< host or address where rank 0 listens, as all ranks can reach it
  int port = 0;
  /// The launcher keeps the store at address:port itself (torchrun's static rendezvous); rank 0 must not listen there.
  bool store_is_kept = false;
  std::string store_prefix = "";  ///< of keys in such a store: a restarted run must not find those of the one before
  std::string said_by = "";       ///< "torchrun's variables", for messages
};

/// The value of an environment variable; nullopt: not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables environment();

struct PlaceOptions {
  bool needs_address = true;  ///< false where ranks find each other otherwise (MPI): address and port are left out
  bool even_alone = false;    ///< one process has a place too
};

/// Understands, in this order: RANK and WORLD_SIZE (torchrun, trireme launch), OMPI_COMM_WORLD_* (Open MPI), PMI_RANK
/// and PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID in a step of srun. MASTER_ADDR and MASTER_PORT win over what a
/// launcher says of where to meet; ranks that are all on one machine meet on its loopback interface whatever
/// MASTER_ADDR says. nullopt: nobody says so, or there is one process only. Errors (user): numbers that are none or
/// contradict each other; several machines and no address.
std::optional<ProcessPlace> process_place(const Variables& variables = environment(), const PlaceOptions& options = {});

/// Whether this process is the one to say what each of those that a launcher started with the same command would say:
/// rank 0, of torchrun, which is started on each machine, the first of each. Before anything is known to be right:
/// never throws.
bool speaks_for_command(const Variables& variables = environment());

/// The first host of a Slurm list: "n1" of "n[1-3,7],m2". Zeros at the front of a number stay.
std::string first_host(const std::string& node_list);

}  // namespace trireme
