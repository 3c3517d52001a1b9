#include "planner/exact/segment_search.h"

#include <algorithm>

#include "base/infinity.h"
#include "planner/exact/memory_price.h"
#include "planner/exact/step_model.h"

namespace trireme {
const SegmentSearch::Least SegmentSearch::kNone{kInfinity, kInfinity, kInfinity, kInfinity, kInfinity};

SegmentSearch::SegmentSearch(LayoutGraph& layout_graph, const StepRule& rule, bool folded, const Deadline& deadline)
    : layout_graph_(layout_graph),
      rule_(rule),
      folded_(folded),
      deadline_(deadline),
      sweeps_(size_t(layout_graph.model_segments().segments())),
      least_(sweeps_.size()) {}

void SegmentSearch::Least::take(const Least& other) {
  fill = std::min(fill, other.fill);
  main = std::min(main, other.main);
  late = std::min(late, other.late);
  state = std::min(state, other.state);
  stored = std::min(stored, other.stored);
}

SegmentSearch::Least SegmentSearch::Least::plus(const Least& other) const {
  return {fill + other.fill, main + other.main, late + other.late, state + other.state, stored + other.stored};
}

SegmentSearch::Least SegmentSearch::least_of_terms(const StageTerms& terms) const {
  const double fill = fill_seconds(rule_, terms), main = main_seconds(rule_, terms) + (folded_ ? fill : 0);
  return {folded_ ? 0 : fill, main, main + rule_.once * (terms.reduce - terms.hide), rule_.once * terms.state(),
          layout_graph_.costs().settings().recompute ? terms.enters : terms.kept};
}

int SegmentSearch::list_number(const std::vector<int>& states) {
  const auto [it, fresh] = list_numbers_.emplace(states, int(lists_.size()));
  if (fresh) lists_.push_back(states);
  return it->second;
}

const SegmentSearch::Flow& SegmentSearch::flow(int step, int list) {
  const auto [it, fresh] = flows_.try_emplace({step, list});
  Flow& flow = it->second;
  if (!fresh) return flow;
  std::vector<int> after;
  std::map<int, int> positions;
  for (int from = 0; from < int(lists_[size_t(list)].size()); ++from)
    for (const LayoutGraph::Transition& transition :
         layout_graph_.transitions(step, lists_[size_t(list)][size_t(from)])) {
      const auto [position, is_new] = positions.emplace(transition.to, int(after.size()));
      if (is_new) after.push_back(transition.to);
      flow.edges.push_back({from, position->second, least_of_terms(transition.terms)});
    }
  flow.list = list_number(after);
  return flow;
}

SegmentSearch::Sweep SegmentSearch::advance(const Sweep& sweep, int step) {
  const Flow& flow = this->flow(step, sweep.list);
  Sweep next{flow.list, std::vector<Least>(lists_[size_t(flow.list)].size(), kNone)};
  for (const Flow::Edge& edge : flow.edges)
    next.least[size_t(edge.to)].take(sweep.least[size_t(edge.from)].plus(edge.adds));
  return next;
}

const SegmentSearch::Sweep& SegmentSearch::sweep_of(int number) {
  std::optional<Sweep>& result = sweeps_[size_t(number)];
  if (result) return *result;
  const ModelSegments& model_segments = layout_graph_.model_segments();
  const ModelSegments::Segment& segment = model_segments.segment(number);
  Sweep sweep;
  if (segment.before >= 0) sweep = sweep_of(segment.before);
  else
    sweep = {
        list_number({layout_graph_.start_state(model_segments.live_before(model_segments.cut(segment.begin)).size())}),
        {Least{}}};
  for (const int step : segment.steps) sweep = advance(sweep, step);
  result = std::move(sweep);
  return *result;
}

const SegmentSearch::Least& SegmentSearch::least_of(int number) {
  std::optional<Least>& result = least_[size_t(number)];
  if (result) return *result;
  const ModelSegments& model_segments = layout_graph_.model_segments();
  const std::vector<NodeId>& live = model_segments.live_before(model_segments.cut(model_segments.segment(number).end));
  Least least = kNone;
  const Sweep& sweep = sweep_of(number);
  for (size_t i = 0; i < sweep.least.size(); ++i)
    least.take(sweep.least[i].plus(least_of_terms(layout_graph_.leave(lists_[size_t(sweep.list)][i], live))));
  result = least;
  return *result;
}

double SegmentSearch::least_fill(int segment) { return least_of(segment).fill; }

double SegmentSearch::least_main(int segment) { return std::max(least_of(segment).main, least_of(segment).late); }

SegmentSearch::Known& SegmentSearch::entry(int segment, double micro_batches) {
  if (!last_ || micro_batches != last_micro_batches_) last_ = &known_[micro_batches];
  last_micro_batches_ = micro_batches;
  std::vector<Known>& all = *last_;
  if (all.empty()) all.resize(size_t(layout_graph_.model_segments().segments()));
  Known& known = all[size_t(segment)];
  if (known.asked) return known;
  known.asked = true;
  const Least& least = least_of(segment);
  const bool fits = fits_limit(least.state + micro_batches * least.stored, layout_graph_.costs().memory_limit());
  if (least.fill < kInfinity && fits) known.bound.push_back({least.fill, least_main(segment), {}});
  return known;
}

void SegmentSearch::look_closer(int segment, double micro_batches, double cutoff) {
  Known& known = entry(segment, micro_batches);
  if (!known.priced) price(segment, micro_batches, known);
  else settle(segment, micro_batches, cutoff, known);
}

/// Bounds fill and main separately, and their sum for a division that is good in both. Reductions are included as far
/// as they mattered in such a division.
void SegmentSearch::price(int segment, double micro_batches, Known& known) {
  known.priced = true;
  const SegmentGraph segment_graph(layout_graph_, segment, rule_, folded_, micro_batches);
  const double limit = layout_graph_.costs().memory_limit();
  const auto bound = [&](const SumWeights& weights) {
    const PricedBound priced = bound_by_price(segment_graph, weights, limit);
    if (priced.none_fits) known.bound.clear();
    for (const SegmentGraph::Path& path : priced.paths) {
      const PathSum sum = segment_graph.sum_of(path);
      if (!fits_limit(sum.bytes, limit) || (known.real && known.real->fill + known.real->main <= sum.fill + sum.main))
        continue;
      known.real = SegmentChoice{sum.fill, sum.main, segment_graph.candidates_of(path)};
      known.late = segment_graph.late_layers(path);
    }
    if (weights.main > 0 && weights.fill > 0) known.byte = priced.byte;
    return priced.value;
  };
  const double sum = bound({1, 1, 0, 0});
  if (known.bound.empty()) return;
  SegmentChoice& least = known.bound.front();
  double late_sum = 0;
  for (int tried = -1; known.late != tried;) {
    tried = known.late;
    late_sum = bound({1, 1, tried, 0});
  }
  if (folded_) {
    least.main = std::max({least.main, sum, late_sum});
    return;
  }
  least.fill = std::max(least.fill, bound({1, 0, 0, 0}));
  least.main = std::max({least.main, bound({0, 1, 0, 0}), bound({0, 1, known.late, 0})});
}

void SegmentSearch::settle(int segment, double micro_batches, double cutoff, Known& known) {
  known.settled_below = cutoff;
  const SegmentGraph segment_graph(layout_graph_, segment, rule_, folded_, micro_batches);
  const double limit = layout_graph_.costs().memory_limit();
  // For a single stage only the best division counts, so only better ones than the known one are searched.
  const bool has_best = folded_ && known.real && known.real->main < cutoff;
  if (has_best) cutoff = known.real->main * kNoBetter;
  LabelAnswer answer;
  bool done = false;
  if (known.byte == 0) {  // the memory limit may not be binding, so first search without it
    answer = search_labels(segment_graph, 0, cutoff, 0, known.late, deadline_);
    labels_ += answer.labels;
    done = limit == 0 || std::all_of(answer.choices.begin(), answer.choices.end(), [&](const SegmentChoice& choice) {
             return fits_limit(segment_graph.sum_of(segment_graph.path_of(choice.candidates)).bytes, limit);
           });
  }
  if (!done) {
    answer = search_labels(segment_graph, limit, cutoff, known.byte, known.late, deadline_);
    labels_ += answer.labels;
  }
  complete_ = complete_ && answer.complete;
  known.settled = std::move(answer.choices);
  if (has_best && known.settled.empty()) known.settled = {*known.real};
}

}  // namespace trireme
