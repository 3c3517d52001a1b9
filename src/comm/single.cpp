#include "comm/single.h"

#include "comm/local/local_world.h"

namespace trireme {

// The communicator keeps the world's state alive.
std::unique_ptr<Communicator> single_communicator() { return LocalWorld(1).communicator(0); }

}  // namespace trireme
