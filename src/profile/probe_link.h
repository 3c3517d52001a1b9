// A quick look at the links between the workers of a run, in between two of its steps.
#pragma once

#include "trireme/communicator.h"

namespace trireme {

/// Of messages between two workers, one at a time.
struct LinkEstimate {
  double latency = 0;    ///< seconds of a message of a few bytes
  double bandwidth = 0;  ///< bytes/s
};

/// Every rank calls it and gets the same answer: neighbours (0 and 1, 2 and 3, ...) throw messages back and forth at
/// the same time; the greatest latency and the least bandwidth count. Takes some ten messages, of which the largest are
/// some milliseconds long. A world of one has no links: nothing is measured (both 0).
LinkEstimate probe_links(Communicator& world);

}  // namespace trireme
