#include "planner/exact/memory_price.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/exact/step_model.h"

namespace trireme {
namespace {

constexpr int kMostPrices = 40;

/// A path as a line over the price: value + price * bytes.
struct Line {
  double value = 0, bytes = 0;
};

Line line_of(const SegmentGraph& segment_graph, const SegmentGraph::Path& path, const SumWeights& weights) {
  Line line;
  const Arc& last = segment_graph.arcs(segment_graph.layers() - 1)[size_t(path.arcs.back())];
  SumWeights free = weights;
  free.byte = 0;
  line.value = segment_graph.weigh(segment_graph.leaving()[size_t(last.to)], segment_graph.layers(), free);
  for (int layer = 0; layer < segment_graph.layers(); ++layer) {
    const Arc& arc = segment_graph.arcs(layer)[size_t(path.arcs[size_t(layer)])];
    line.value += segment_graph.weigh(arc, layer, free);
    line.bytes += segment_graph.held(arc);
  }
  return line;
}

}  // namespace

PricedBound bound_by_price(const SegmentGraph& segment_graph, SumWeights weights, double limit) {
  PricedBound bound;
  weights.byte = 0;
  bound.paths.push_back(segment_graph.best_path(weights));
  if (bound.paths.back().arcs.empty()) return {std::numeric_limits<double>::infinity(), 0, {}, true};
  bound.value = bound.paths.back().sum;
  const double room = limit * (1 + kLimitRounding) - segment_graph.least_transient();
  Line dear = line_of(segment_graph, bound.paths.back(), weights);
  if (limit == 0 || dear.bytes <= room) return bound;

  bound.paths.push_back(segment_graph.best_path({0, 0, 0, 1}));
  Line small = line_of(segment_graph, bound.paths.back(), weights);
  if (small.bytes > room) {
    bound.none_fits = true;
    return bound;
  }
  for (int i = 0; i < kMostPrices && dear.bytes > small.bytes; ++i) {
    weights.byte = std::max(0.0, (small.value - dear.value) / (dear.bytes - small.bytes));
    bound.paths.push_back(segment_graph.best_path(weights));
    const double value = bound.paths.back().sum - weights.byte * room;
    if (value > bound.value) {
      bound.value = value;
      bound.byte = weights.byte;
    }
    const Line line = line_of(segment_graph, bound.paths.back(), weights);
    constexpr double kSame = 1e-12;
    const double at_kink = dear.value + weights.byte * dear.bytes;
    if (bound.paths.back().sum >= at_kink - kSame * std::abs(at_kink)) break;
    (line.bytes <= room ? small : dear) = line;
  }
  return bound;
}

}  // namespace trireme
