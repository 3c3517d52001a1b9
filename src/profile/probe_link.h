// A quick measurement of the links between the workers of a run, between two of its steps.
#pragma once

#include <utility>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

/// Seconds of a core that a message takes: all threads of both processes together, or of this one if the workers are
/// threads.
struct TransferWork {
  double of_message = 0;  ///< of a few bytes
  double of_byte = 0;     ///< of a large one
};

/// The cost of messages between two workers, one message at a time.
struct LinkEstimate {
  double latency = 0;    ///< seconds of a message of a few bytes
  double bandwidth = 0;  ///< bytes/s
  TransferWork work = {};
};

/// Collective: all ranks must call it, with the same pairs, and all get the same result. The ranks of each pair
/// exchange messages, all pairs at the same time; no rank is in two pairs. Returns the greatest latency, the least
/// bandwidth and the most work. Takes up to two hundred messages for each of up to five sizes: some tens of
/// milliseconds over a fast connection. Without pairs both values are 0.
LinkEstimate probe_links(Communicator& world, const std::vector<std::pair<int, int>>& pairs);

/// The same for neighbours: 0 and 1, 2 and 3, ...
LinkEstimate probe_links(Communicator& world);

}  // namespace trireme
