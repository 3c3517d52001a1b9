#include "planner/exact/segment_graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/infinity.h"

namespace trireme {
SegmentGraph::SegmentGraph(LayoutGraph& layout_graph, int number, const StepRule& rule, bool folded,
                           double micro_batches)
    : micro_batches_(micro_batches) {
  const ModelSegments& model_segments = layout_graph.model_segments();
  const ModelSegments::Segment& segment = model_segments.segment(number);
  const bool recompute = layout_graph.costs().settings().recompute;
  std::vector<int> here{layout_graph.start_state(model_segments.live_before(model_segments.cut(segment.begin)).size())};
  for (const int step : model_segments.steps_of(number)) {
    states_.push_back(int(here.size()));
    run_begins_.push_back(model_segments.step(step).run_begins);
    std::vector<int> after;
    std::unordered_map<int, int> index;
    arcs_.emplace_back();
    for (int from = 0; from < int(here.size()); ++from)
      for (const LayoutGraph::Transition& transition : layout_graph.transitions(step, here[size_t(from)])) {
        const auto [it, fresh] = index.emplace(transition.to, int(after.size()));
        if (fresh) after.push_back(transition.to);
        arcs_.back().push_back(arc_of(transition.terms, rule, folded, recompute));
        Arc& arc = arcs_.back().back();
        arc.from = from;
        arc.to = it->second;
        arc.candidate = transition.candidate;
      }
    here = std::move(after);
  }
  states_.push_back(int(here.size()));
  const std::vector<NodeId>& live = model_segments.live_before(model_segments.cut(segment.end));
  for (const int state : here) leaving_.push_back(arc_of(layout_graph.leave(state, live), rule, folded, recompute));
  find_least_transient();
}

Arc SegmentGraph::arc_of(const StageTerms& terms, const StepRule& rule, bool folded, bool recompute) const {
  Arc arc;
  arc.fill = folded ? 0 : fill_seconds(rule, terms);
  arc.main = main_seconds(rule, terms) + (folded ? fill_seconds(rule, terms) : 0);
  arc.reduce = rule.once * terms.reduce;
  arc.hide = rule.once * terms.hide;
  arc.state = rule.once * terms.state();
  arc.stored = recompute ? terms.enters : terms.kept;
  arc.run = recompute ? terms.kept : 0;
  arc.workspace = terms.workspace;
  return arc;
}

void SegmentGraph::find_least_transient() {
  double workspace = 0, run = 0, largest_run = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    double least_workspace = kInfinity, least_run = kInfinity;
    for (const Arc& arc : arcs(layer)) {
      least_workspace = std::min(least_workspace, arc.workspace);
      least_run = std::min(least_run, arc.run);
    }
    workspace = std::max(workspace, least_workspace);
    run = (run_begins(layer) ? 0 : run) + least_run;
    largest_run = std::max(largest_run, run);
  }
  least_transient_ = workspace + largest_run;
}

SegmentGraph::Sums SegmentGraph::least_sums(const SumWeights& weights) const {
  Sums sums(states_.size());
  sums[0].assign(size_t(states_[0]), 0.0);
  for (int layer = 0; layer < layers(); ++layer) {
    const std::vector<double>& before = sums[size_t(layer)];
    std::vector<double>& after = sums[size_t(layer) + 1];
    after.assign(size_t(states(layer + 1)), kInfinity);
    for (const Arc& arc : arcs(layer))
      after[size_t(arc.to)] = std::min(after[size_t(arc.to)], before[size_t(arc.from)] + weigh(arc, layer, weights));
  }
  return sums;
}

SegmentGraph::Path SegmentGraph::best_path(const SumWeights& weights) const {
  const Sums sums = least_sums(weights);
  Path path{kInfinity, {}};
  int state = -1;
  for (int s = 0; s < states(layers()); ++s) {
    const double sum = sums.back()[size_t(s)] + weigh(leaving_[size_t(s)], layers(), weights);
    if (sum >= path.sum) continue;
    path.sum = sum;
    state = s;
  }
  if (state < 0) return path;
  path.arcs.resize(size_t(layers()));
  for (int layer = layers() - 1; layer >= 0; --layer) {
    double least = kInfinity;
    int chosen = -1;
    for (int a = 0; a < int(arcs(layer).size()); ++a) {
      const Arc& arc = arcs(layer)[size_t(a)];
      if (arc.to != state) continue;
      const double sum = sums[size_t(layer)][size_t(arc.from)] + weigh(arc, layer, weights);
      if (chosen >= 0 && sum >= least) continue;
      least = sum;
      chosen = a;
    }
    path.arcs[size_t(layer)] = chosen;
    state = arcs(layer)[size_t(chosen)].from;
  }
  return path;
}

PathSum SegmentGraph::sum_of(const Path& path) const {
  const Arc& last = arcs(layers() - 1)[size_t(path.arcs.back())];
  PathSum sum{leaving_[size_t(last.to)].fill, leaving_[size_t(last.to)].main, 0, 0};
  double reduction = 0, run = 0, largest_run = 0, workspace = 0;
  for (int layer = layers() - 1; layer >= 0; --layer) {
    const Arc& arc = arcs(layer)[size_t(path.arcs[size_t(layer)])];
    sum.fill += arc.fill;
    sum.main += arc.main;
    sum.held += held(arc);
    reduction = std::max(0.0, reduction - arc.hide) + arc.reduce;
    workspace = std::max(workspace, arc.workspace);
    run += arc.run;
    largest_run = std::max(largest_run, run);
    if (run_begins(layer)) run = 0;
  }
  sum.main += reduction;
  sum.bytes = sum.held + largest_run + workspace;
  return sum;
}

int SegmentGraph::late_layers(const Path& path) const {
  double before = 0, most = 0;  // reductions less hides of the previous layers
  int layers_of_most = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    const Arc& arc = arcs(layer)[size_t(path.arcs[size_t(layer)])];
    if (before + arc.reduce > most) {
      most = before + arc.reduce;
      layers_of_most = layer + 1;
    }
    before += arc.reduce - arc.hide;
  }
  return layers_of_most;
}

std::vector<int> SegmentGraph::candidates_of(const Path& path) const {
  std::vector<int> candidates;
  for (int layer = 0; layer < layers(); ++layer)
    candidates.push_back(arcs(layer)[size_t(path.arcs[size_t(layer)])].candidate);
  return candidates;
}

SegmentGraph::Path SegmentGraph::path_of(const std::vector<int>& candidates) const {
  Path path;
  int state = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    const auto leads = [&](const Arc& arc) { return arc.from == state && arc.candidate == candidates[size_t(layer)]; };
    const auto arc = std::find_if(arcs(layer).begin(), arcs(layer).end(), leads);
    path.arcs.push_back(int(arc - arcs(layer).begin()));
    state = arc->to;
  }
  return path;
}

}  // namespace trireme
