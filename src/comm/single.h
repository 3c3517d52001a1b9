// A group of one rank, for code that always needs a communicator.
#pragma once

#include <memory>

#include "trireme/communicator.h"

namespace trireme {

/// Returns a communicator of size 1 that needs no world object. Collectives copy the input to the output if these
/// differ, and do nothing else. Messages go to the rank itself.
std::unique_ptr<Communicator> single_communicator();

}  // namespace trireme
