// Bounds under a memory limit by pricing bytes (Lagrangian relaxation; Everett, "Generalized Lagrange multiplier
// method", 1963).
#pragma once

#include <vector>

#include "planner/exact/segment_graph.h"

namespace trireme {

struct PricedBound {
  double value = 0;                     ///< no way within the limit has a smaller weighted sum
  double byte = 0;                      ///< the price at which that was found
  std::vector<SegmentGraph::Way> ways;  ///< met while looking, whether they fit or not
  bool none_fits = false;               ///< proven: no way is within the limit
};

/// The best bound that a price per byte gives, found by going from one to the next way where the sum at the best price
/// has its kink. `limit`: bytes of the device; 0: none. `weights.byte` is not read.
PricedBound bound_by_price(const SegmentGraph& segment_graph, SumWeights weights, double limit);

}  // namespace trireme
