// Measures the communication between the workers of one process (backend `local`), on cores or on the GPUs that they
// are placed on.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "profile/probe_link.h"
#include "profile/profile.h"
#include "tensor/redistribute.h"
#include "trireme/communicator.h"

namespace trireme {

/// Measures for each number of workers in `workers`, each at least 2. Takes a second or two per number.
LinkMeasurement measure_links(const std::vector<int>& workers);

/// Seconds of a core that a rank works for a redistribution, by the tensor's bytes, of a group of `ranks`.
struct RedistributionWork {
  int ranks = 0;
  std::map<RedistributionKind, TransferWork> of = {};  ///< all_reduce, all_gather, reduce_scatter and all_to_all
};

/// Measures the redistributions of layers' tensors between processes: copies, sums and sending, on all threads of a
/// process; the rank that works most counts. Collective: all ranks must call it, and all get the same result. Takes
/// about a second; over a slow network only small tensors are moved.
RedistributionWork measure_redistributions(Communicator& world);

/// Fits a line to (bytes, seconds), with latency and slope not below zero. It minimises the sum of the absolute
/// logarithms of the ratios: an error factor has the same weight at all sizes, and an outlier has little influence. The
/// result includes the points. Requires at least two points with different bytes, ascending.
TransferLine fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace trireme
