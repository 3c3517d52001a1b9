// All good ways through a lattice within a memory limit.
#pragma once

#include "planner/deadline.h"
#include "planner/exact/segment_search.h"

namespace trireme {

struct LabelAnswer {
  std::vector<SegmentChoice> choices;  ///< those that no other beats in both fill and main
  bool complete = true;                ///< false: some may have been left out
  size_t labels = 0;                   ///< made
};

/// Ways with fill + main below `cutoff`. `limit`: bytes; 0: none. For bounds: a good price of a byte, and of how many layers the reductions
/// matter (SumWeights::late). Once `deadline` has passed nothing is looked at any more, and the answer is not complete.
LabelAnswer search_labels(const Lattice& lattice, double limit, double cutoff, double byte, int late, const Deadline& deadline);

}  // namespace trireme
