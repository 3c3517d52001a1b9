// The layout_graph between a segment's first layer and its last, spelled out with numbers under one schedule's rule:
// what the segment's dynamic programs run over.
#pragma once

#include <vector>

#include "planner/exact/layout_graph.h"
#include "planner/exact/step_rule.h"

namespace trireme {

/// One candidate for one layer, from a state before it to one after it (indices into SegmentGraph::states).
struct Arc {
  int from = 0, to = 0, candidate = 0;
  double fill = 0, main = 0;    ///< seconds that it adds to these
  double reduce = 0, hide = 0;  ///< seconds, as often as a worker has stages
  double state = 0;             ///< bytes, likewise
  double stored = 0;            ///< bytes per micro-batch in flight
  double run = 0;               ///< bytes while its run is recomputed; 0 where nothing is
  double workspace = 0;
};

/// How a layer's arc counts in a relaxed sum. `late`: of the first so many layers reduce counts, less hide but for the
/// last of them: what is left of the reductions at the end is no less than that, for whichever number. `byte`: seconds
/// that a byte costs.
struct SumWeights {
  double fill = 1, main = 1;
  int late = 0;
  double byte = 0;
};

/// What one way through the segment_graph amounts to.
struct WaySum {
  double fill = 0, main = 0;  ///< main with the exposed reduction
  double bytes = 0;           ///< of the device
  double held = 0;            ///< of these: state and what micro-batches keep, without recomputing and workspace
};

/// Made for one segment and a number of micro-batches in flight.
class SegmentGraph {
 public:
  /// `folded`: fill counts as main.
  SegmentGraph(LayoutGraph& layout_graph, int segment, const StepRule& rule, bool folded, double micro_batches);

  int layers() const { return int(arcs_.size()); }
  int states(int boundary) const { return states_[size_t(boundary)]; }
  const std::vector<Arc>& arcs(int layer) const { return arcs_[size_t(layer)]; }
  const std::vector<Arc>& leaving() const {
    return leaving_;
  }  ///< by state after the last layer: what it costs to end there
  bool run_begins(int layer) const { return run_begins_[size_t(layer)]; }
  double held(const Arc& arc) const { return arc.state + micro_batches_ * arc.stored; }
  /// No way needs less than this for recomputing and workspace.
  double least_transient() const { return least_transient_; }

  /// Least sums from the first layer to every state, by boundary and state.
  using Sums = std::vector<std::vector<double>>;
  Sums least_sums(const SumWeights& weights) const;
  double weigh(const Arc& arc, int layer, const SumWeights& w) const {
    const double late = layer < w.late ? arc.reduce - (layer + 1 < w.late ? arc.hide : 0) : 0;
    return w.fill * arc.fill + w.main * (arc.main + late) + w.byte * held(arc);
  }

  /// The way of least weighted sum: its arcs' indices by layer.
  struct Way {
    double sum = 0;
    std::vector<int> arcs;
  };
  Way best_way(const SumWeights& weights) const;
  WaySum sum_of(const Way& way) const;
  /// The number of layers whose reductions, less what hides them, are what is left at the end (SumWeights::late).
  int late_layers(const Way& way) const;
  std::vector<int> candidates_of(const Way& way) const;
  Way way_of(const std::vector<int>& candidates) const;  ///< its sum is left 0

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
