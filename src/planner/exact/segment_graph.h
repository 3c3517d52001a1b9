// The layout graph of one segment with all costs evaluated under one schedule's rule. The segment's dynamic programs
// run on it.
#pragma once

#include <vector>

#include "planner/exact/layout_graph.h"
#include "planner/exact/step_rule.h"

namespace trireme {

/// One candidate for one layer, from a state before it to a state after it (indices into SegmentGraph::states).
struct Arc {
  int from = 0, to = 0, candidate = 0;
  double fill = 0, main = 0;    ///< seconds that it adds to fill and to main
  double reduce = 0, hide = 0;  ///< seconds, times the number of stages of a worker
  double state = 0;             ///< bytes, times the number of stages of a worker
  double stored = 0;            ///< bytes per micro-batch in flight
  double run = 0;               ///< bytes while its run is recomputed; 0 without recomputation
  double workspace = 0;
};

/// The weights of an arc in a relaxed sum. `late`: of the first `late` layers, `reduce` counts, less `hide` except for
/// the last of them. For any `late`, this is a lower bound on the remaining reduction. `byte`: price in seconds per
/// byte.
struct SumWeights {
  double fill = 1, main = 1;
  int late = 0;
  double byte = 0;
};

/// The totals of one path through the segment graph.
struct PathSum {
  double fill = 0, main = 0;  ///< main includes the exposed reduction
  double bytes = 0;           ///< of the device
  double held = 0;  ///< part of `bytes`: state and what micro-batches retain, without recomputation and workspace
};

/// The graph of one segment for a given number of micro-batches in flight.
class SegmentGraph {
 public:
  /// `folded`: fill counts as main.
  SegmentGraph(LayoutGraph& layout_graph, int segment, const StepRule& rule, bool folded, double micro_batches);

  int layers() const { return int(arcs_.size()); }
  int states(int boundary) const { return states_[size_t(boundary)]; }
  const std::vector<Arc>& arcs(int layer) const { return arcs_[size_t(layer)]; }
  const std::vector<Arc>& leaving() const {
    return leaving_;
  }  ///< by state after the last layer: the cost of ending there
  bool run_begins(int layer) const { return run_begins_[size_t(layer)]; }
  double held(const Arc& arc) const { return arc.state + micro_batches_ * arc.stored; }
  /// A lower bound over all paths on the bytes for recomputation and workspace.
  double least_transient() const { return least_transient_; }

  /// The least sums from the first layer to each state, by boundary and state.
  using Sums = std::vector<std::vector<double>>;
  Sums least_sums(const SumWeights& weights) const;
  double weigh(const Arc& arc, int layer, const SumWeights& w) const {
    const double late = layer < w.late ? arc.reduce - (layer + 1 < w.late ? arc.hide : 0) : 0;
    return w.fill * arc.fill + w.main * (arc.main + late) + w.byte * held(arc);
  }

  /// The path of least weighted sum: the index of its arc in each layer.
  struct Path {
    double sum = 0;
    std::vector<int> arcs;
  };
  Path best_path(const SumWeights& weights) const;
  PathSum sum_of(const Path& path) const;
  /// The number of layers whose reductions, less what hides them, are the remaining reduction (SumWeights::late).
  int late_layers(const Path& path) const;
  std::vector<int> candidates_of(const Path& path) const;
  Path path_of(const std::vector<int>& candidates) const;  ///< does not set `sum`

 private:
  Arc arc_of(const StageTerms& terms, const StepRule& rule, bool folded, bool recompute) const;
  void find_least_transient();

  const double micro_batches_;
  std::vector<int> states_;
  std::vector<std::vector<Arc>> arcs_;
  std::vector<Arc> leaving_;
  std::vector<bool> run_begins_;
  double least_transient_ = 0;
};

}  // namespace trireme
