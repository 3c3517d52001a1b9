// Lower bounds under a memory limit, by pricing bytes (Lagrangian relaxation; Everett, "Generalized Lagrange multiplier
// method", 1963).
#pragma once

#include <vector>

#include "planner/exact/segment_graph.h"

namespace trireme {

struct PricedBound {
  double value = 0;                       ///< no path within the limit has a smaller weighted sum
  double byte = 0;                        ///< the price that gave this bound
  std::vector<SegmentGraph::Path> paths;  ///< paths found during the search, whether they fit or not
  bool none_fits = false;                 ///< proven: no path is within the limit
};

/// The best bound over all prices per byte. The bound is a concave piecewise linear function of the price. Its maximum
/// is found by moving from path to path at the intersections of their lines. `limit`: bytes of the device; 0: none.
/// `weights.byte` is ignored.
PricedBound bound_by_price(const SegmentGraph& segment_graph, SumWeights weights, double limit);

}  // namespace trireme
