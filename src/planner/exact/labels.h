// All non-dominated paths through a segment graph within a memory limit.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/segment_graph.h"

namespace trireme {

/// Sums whose relative difference is smaller are equal.
constexpr double kNoBetter = 1 - 1e-10;

/// One division of a segment, by its contribution to the step (step_rule.h).
struct SegmentChoice {
  double fill = 0;
  double main = 0;              ///< including the exposed reduction
  std::vector<int> candidates;  ///< per layer; empty: a bound without a division
};

struct LabelAnswer {
  std::vector<SegmentChoice> choices;  ///< the choices that no other dominates in both fill and main
  bool complete = true;                ///< false: some may be missing
  size_t labels = 0;                   ///< number of labels created
};

/// Returns paths with fill + main below `cutoff`. `limit`: bytes; 0: none. `byte` (a good price per byte) and `late`
/// (number of layers whose reductions count, SumWeights::late) are used for bounds. If `deadline` passes, the search
/// stops and the answer is incomplete.
LabelAnswer search_labels(const SegmentGraph& segment_graph, double limit, double cutoff, double byte, int late,
                          const Deadline& deadline);

}  // namespace trireme
