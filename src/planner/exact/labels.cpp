// Labels run from the segment's last layer to its first, as backward does. The remaining reduction then needs only one
// number. Sums from the first layer on bound the completion of a label: plain, with the reductions, and with priced
// bytes.
#include "planner/exact/labels.h"

#include <algorithm>
#include <set>

#include "planner/exact/step_model.h"

namespace trireme {
namespace {

constexpr size_t kMostLabels = 500;  // per state; the most expensive ones are dropped

/// A path from a state to the segment's end.
struct Label {
  double fill = 0, main = 0;
  double reduction = 0;  // remaining when backward reaches this state
  double held = 0, run = 0, largest_run = 0, workspace = 0;
  int next_label = -1;  // in the state after the arc
  int arc = -1;
  double transient() const { return largest_run + workspace; }
};

class LabelSearch {
 public:
  LabelSearch(const SegmentGraph& segment_graph, double limit, double cutoff, double byte, int late,
              const Deadline& deadline)
      : segment_graph_(segment_graph), limit_(limit), cutoff_(cutoff), byte_(byte), deadline_(deadline) {
    least_held_ = segment_graph.least_sums({0, 0, 0, 1});
    for (const int layers : std::set<int>{late, segment_graph.layers()}) {
      add_bound({1, 1, layers, 0});
      if (limit > 0 && byte > 0) add_bound({1, 1, layers, byte});
    }
  }

  LabelAnswer run() {
    labels_.resize(size_t(segment_graph_.layers()) + 1);
    labels_.back().resize(size_t(segment_graph_.states(segment_graph_.layers())));
    for (int s = 0; s < segment_graph_.states(segment_graph_.layers()); ++s) {
      Label label;
      label.fill = segment_graph_.leaving()[size_t(s)].fill;
      label.main = segment_graph_.leaving()[size_t(s)].main;
      if (!hopeless(label, segment_graph_.layers(), s)) labels_.back()[size_t(s)] = {label};
    }
    for (int layer = segment_graph_.layers() - 1; layer >= 0; --layer)
      if (!extend_all(layer)) {
        answer_.complete = false;
        return std::move(answer_);
      }
    collect();
    return std::move(answer_);
  }

 private:
  struct Bound {
    SumWeights weights;
    SegmentGraph::Sums sums;
  };

  void add_bound(const SumWeights& weights) { bounds_.push_back({weights, segment_graph_.least_sums(weights)}); }

  /// Returns false if the deadline has passed.
  bool extend_all(int layer) {
    std::vector<std::vector<Label>>& here = labels_[size_t(layer)];
    here.resize(size_t(segment_graph_.states(layer)));
    for (int a = 0; a < int(segment_graph_.arcs(layer).size()); ++a) {
      if (deadline_.passed()) return false;
      const Arc& arc = segment_graph_.arcs(layer)[size_t(a)];
      const std::vector<Label>& after = labels_[size_t(layer) + 1][size_t(arc.to)];
      for (int l = 0; l < int(after.size()); ++l) {
        Label label = extended(after[size_t(l)], arc, segment_graph_.run_begins(layer));
        if (hopeless(label, layer, arc.from)) continue;
        label.next_label = l;
        label.arc = a;
        insert(here[size_t(arc.from)], label);
      }
    }
    return true;
  }

  Label extended(const Label& label, const Arc& arc, bool run_begins) const {
    Label next = label;
    next.fill += arc.fill;
    next.main += arc.main;
    next.reduction = std::max(0.0, label.reduction - arc.hide) + arc.reduce;
    next.held += segment_graph_.held(arc);
    next.workspace = std::max(next.workspace, arc.workspace);
    next.run += arc.run;
    next.largest_run = std::max(next.largest_run, next.run);
    if (run_begins) next.run = 0;
    return next;
  }

  bool hopeless(const Label& label, int boundary, int state) const {
    const double transient = std::max(label.transient(), segment_graph_.least_transient());
    if (!fits_limit(label.held + least_held_[size_t(boundary)][size_t(state)] + transient, limit_)) return true;
    for (const Bound& bound : bounds_) {
      const SumWeights& w = bound.weights;
      double value = label.fill + label.main + bound.sums[size_t(boundary)][size_t(state)];
      if (boundary < w.late) value += label.reduction;
      if (w.byte > 0) value -= w.byte * (limit_ * (1 + kLimitRounding) - transient - label.held);
      if (value >= cutoff_) return true;
    }
    return false;
  }

  bool no_worse(const Label& a, const Label& b) const {
    return a.fill <= b.fill && a.main <= b.main && a.reduction <= b.reduction &&
           (limit_ == 0 ||
            (a.held <= b.held && a.run <= b.run && a.largest_run <= b.largest_run && a.workspace <= b.workspace));
  }

  void insert(std::vector<Label>& labels, const Label& label) {
    for (const Label& other : labels)
      if (no_worse(other, label)) return;
    std::erase_if(labels, [&](const Label& other) { return no_worse(label, other); });
    labels.push_back(label);
    ++answer_.labels;
    if (labels.size() <= kMostLabels) return;
    answer_.complete = false;
    const auto price = [this](const Label& l) {
      return l.fill + l.main + l.reduction + byte_ * (l.held + l.transient());
    };
    labels.erase(std::max_element(labels.begin(), labels.end(),
                                  [&](const Label& a, const Label& b) { return price(a) < price(b); }));
  }

  void collect() {
    for (const Label& first : labels_[0][0]) {
      if (!fits_limit(first.held + first.transient(), limit_)) continue;
      SegmentChoice choice{first.fill, first.main + first.reduction, {}};
      const auto beats = [](const SegmentChoice& a, const SegmentChoice& b) {
        return a.fill <= b.fill && a.main <= b.main;
      };
      if (std::any_of(answer_.choices.begin(), answer_.choices.end(),
                      [&](const SegmentChoice& other) { return beats(other, choice); }))
        continue;
      std::erase_if(answer_.choices, [&](const SegmentChoice& other) { return beats(choice, other); });
      const Label* label = &first;
      for (int layer = 0; layer < segment_graph_.layers(); ++layer) {
        const Arc& arc = segment_graph_.arcs(layer)[size_t(label->arc)];
        choice.candidates.push_back(arc.candidate);
        label = &labels_[size_t(layer) + 1][size_t(arc.to)][size_t(label->next_label)];
      }
      answer_.choices.push_back(std::move(choice));
    }
  }

  const SegmentGraph& segment_graph_;
  const double limit_, cutoff_, byte_;
  const Deadline& deadline_;
  std::vector<Bound> bounds_;
  SegmentGraph::Sums least_held_;
  std::vector<std::vector<std::vector<Label>>> labels_;  // by boundary and state
  LabelAnswer answer_;
};

}  // namespace

LabelAnswer search_labels(const SegmentGraph& segment_graph, double limit, double cutoff, double byte, int late,
                          const Deadline& deadline) {
  return LabelSearch(segment_graph, limit, cutoff, byte, late, deadline).run();
}

}  // namespace trireme
