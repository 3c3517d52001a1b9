// The best ways to divide the layers of one stage: a dynamic program over the trellis, exact.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/exact/step_rule.h"
#include "planner/exact/trellis.h"

namespace trireme {

/// One way to hold a segment, by what it adds to the step (step_rule.h).
struct SegmentChoice {
  double fill = 0;
  double main = 0;              ///< with the exposed reduction
  std::vector<int> candidates;  ///< of each layer; empty: only a bound, of no way in particular
};

/// Of the segments of one place, under one rule. Used by one thread.
class SegmentSearch {
 public:
  /// `trellis` outlives it. `folded`: only fill + main counts (a plan of one stage), and all of it is put into main.
  SegmentSearch(Trellis& trellis, const StepRule& rule, bool folded) : trellis_(trellis), rule_(rule), folded_(folded) {}

  /// No way to hold the segment has less fill, or less main, whatever memory there is: one choice without candidates, from quick sums. Empty
  /// where no way fits.
  const std::vector<SegmentChoice>& bound(int segment, double micro_batches);

  /// All ways that fit and that no other beats in both, but for those with fill + main of `cutoff` or more.
  const std::vector<SegmentChoice>& choices(int segment, double micro_batches, double cutoff);
  bool has_choices(int segment, double micro_batches) const { return choices_.count({segment, micro_batches}) > 0; }

  /// Whether nothing was ever left out of `choices`.
  bool complete() const { return complete_; }
  size_t labels() const { return labels_; }  ///< made so far

 private:
  /// Least sums over all ways from the segment's begin to a state, each by itself.
  struct Least {
    double fill = 0, main = 0;
    double late = 0;    ///< main plus reductions less what hides them
    double total = 0, total_late = 0;  ///< with fill
    double state = 0, stored = 0;      ///< bytes; stored: per micro-batch
    static Least worst();
    void take(const Least& other);
  };
  using Sweep = std::map<int, Least>;  // by state

  /// A way from a state to the segment's end.
  struct Label {
    double fill = 0, main = 0;
    double reduction = 0;                        ///< still to do when backward reaches this state
    double held = 0, run = 0, largest_run = 0, workspace = 0;  ///< bytes: of state and micro-batches; of recomputing
    int next_state = -1, next_label = -1, candidate = -1;
    double bytes() const { return held + std::max(run, largest_run) + workspace; }
  };
  using Labels = std::map<int, std::vector<Label>>;  // by state

  double fill(const StageTerms& terms) const { return folded_ ? 0 : rule_.fill(terms); }
  double main(const StageTerms& terms) const { return rule_.main(terms) + (folded_ ? rule_.fill(terms) : 0); }
  double stored(const StageTerms& t) const { return trellis_.costs().settings().recompute ? t.enters : t.kept; }
  Least extended(const Least& least, const StageTerms& terms) const;
  Sweep advance(const Sweep& sweep, int step);
  const Sweep& sweep_of(int segment);
  std::vector<Sweep> sweeps_of_layers(const std::vector<int>& steps, int begin);

  Label extended(const Label& label, const StageTerms& terms, const LayerStep& step, double micro_batches) const;
  bool hopeless(const Label& label, const Least& rest, double micro_batches, double cutoff, bool by_memory) const;
  bool insert(std::vector<Label>& labels, const Label& label, bool by_memory);
  std::vector<SegmentChoice> search(int segment, double micro_batches, double cutoff, bool by_memory, bool& all_fit);

  Trellis& trellis_;
  const StepRule rule_;
  const bool folded_;
  bool complete_ = true;
  size_t labels_ = 0;
  std::map<int, Sweep> sweeps_;
  std::map<std::pair<int, double>, std::vector<SegmentChoice>> bounds_, choices_;
};

}  // namespace trireme
