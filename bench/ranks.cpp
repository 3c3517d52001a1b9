#include "ranks.h"

#include "comm/gloo/gloo.h"
#include "comm/mpi/mpi.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/process_place.h"
#include "comm/rendezvous/token.h"

namespace trireme {

std::unique_ptr<Communicator> ranks_of_bench(const std::string& backend) {
  const auto place = process_place();
  if (!place) return nullptr;
  if (backend == "mpi") return mpi_communicator({.rank = place->rank, .size = place->size});
  return gloo_communicator({.rank = place->rank,
                            .size = place->size,
                            .address = place->address,
                            .port = place->port,
                            .token = read_token({}),
                            .interface = interface_towards(place->address)});
}

}  // namespace trireme
