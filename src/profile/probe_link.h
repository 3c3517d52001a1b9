// A quick measurement of the links between the workers of a run, between two of its steps.
#pragma once

#include "trireme/communicator.h"

namespace trireme {

/// Of messages between two workers, one message at a time.
struct LinkEstimate {
  double latency = 0;    ///< seconds of a message of a few bytes
  double bandwidth = 0;  ///< bytes/s
};

/// Collective: all ranks must call it, and all get the same result. Neighbours (0 and 1, 2 and 3, ...) exchange
/// messages at the same time. Returns the greatest latency and the least bandwidth. Takes about ten messages, the
/// largest of which last some milliseconds. A world of one has no links: both values are 0.
LinkEstimate probe_links(Communicator& world);

}  // namespace trireme
