// A group of one, for code that always communicates with a communicator.
#pragma once

#include <memory>

#include "trireme/communicator.h"

namespace trireme {

/// A communicator of size 1 with no world to hold: collectives copy where input and output differ and do nothing else,
/// messages go to itself.
std::unique_ptr<Communicator> single_communicator();

}  // namespace trireme
