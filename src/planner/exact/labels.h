// All good ways through a segment_graph within a memory limit.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/segment_graph.h"

namespace trireme {

/// Sums that differ by less are the same, relative.
constexpr double kNoBetter = 1 - 1e-10;

/// One way to hold a segment, by what it adds to the step (step_rule.h).
struct SegmentChoice {
  double fill = 0;
  double main = 0;              ///< with the exposed reduction
  std::vector<int> candidates;  ///< of each layer; empty: only a bound, of no way in particular
};

struct LabelAnswer {
  std::vector<SegmentChoice> choices;  ///< those that no other beats in both fill and main
  bool complete = true;                ///< false: some may have been left out
  size_t labels = 0;                   ///< made
};

/// Ways with fill + main below `cutoff`. `limit`: bytes; 0: none. For bounds: a good price of a byte, and of how many
/// layers the reductions matter (SumWeights::late). Once `deadline` has passed nothing is looked at any more, and the
/// answer is not complete.
LabelAnswer search_labels(const SegmentGraph& segment_graph, double limit, double cutoff, double byte, int late,
                          const Deadline& deadline);

}  // namespace trireme
