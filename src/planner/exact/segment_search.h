// The best ways to divide the layers of one stage: a dynamic program over the layout_graph, exact.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/labels.h"

namespace trireme {

/// Of the segments of one place, under one rule. Used by one thread.
class SegmentSearch {
 public:
  /// `layout_graph` and `deadline` outlive it. `folded`: only fill + main counts (a plan of one stage), and all of it
  /// is put into main.
  SegmentSearch(LayoutGraph& layout_graph, const StepRule& rule, bool folded, const Deadline& deadline);

  struct Known {
    bool asked = false, priced = false;
    /// One: no way has less fill, none less main. At first from sums that let memory and hiding aside; priced: with
    /// memory too (memory_price.h). Empty where no way fits.
    std::vector<SegmentChoice> bound;
    /// All ways that fit and that no other beats in both, of those whose fill + main is below `settled_below` (0: none
    /// were looked for).
    std::vector<SegmentChoice> settled;
    double settled_below = 0;
    std::optional<SegmentChoice> real;  ///< a good way that fits, where one was met
    int late = 0;                       ///< of how many layers the reductions matter there
    double byte = 0;                    ///< a good price of a byte
    /// For somebody who needs those below `cutoff` only.
    const std::vector<SegmentChoice>& below(double cutoff) const { return settled_below >= cutoff ? settled : bound; }
  };
  const Known& known(int segment, double micro_batches) { return entry(segment, micro_batches); }
  /// Of sums only, whatever memory there is; infinite where there is no way at all.
  double least_fill(int segment);
  double least_main(int segment);

  /// Knows the segment one step better: prices it, then settles it for `cutoff`.
  void look_closer(int segment, double micro_batches, double cutoff);

  bool complete() const {
    return complete_;
  }  ///< whether nothing was ever left out of settled choices, for the deadline's sake either
  size_t labels() const { return labels_; }  ///< made so far

 private:
  /// Least sums over all ways from the segment's begin to a state, each by itself.
  struct Least {
    double fill, main, late;  ///< late: main plus reductions less what hides them
    double state, stored;     ///< bytes; stored: per micro-batch
    void take(const Least& other);
    Least plus(const Least& other) const;
  };
  static const Least kNone;
  struct Sweep {
    int list = 0;              ///< of states
    std::vector<Least> least;  ///< by place in it
  };
  /// All transitions of a layer from a list of states, to be gone through again and again.
  struct Flow {
    struct Edge {
      int from = 0, to = 0;  ///< places in the lists
      Least adds;
    };
    int list = 0;  ///< of the states after
    std::vector<Edge> edges;
  };

  Least least_of_terms(const StageTerms& terms) const;
  int list_number(const std::vector<int>& states);
  const Flow& flow(int step, int list);
  Sweep advance(const Sweep& sweep, int step);
  const Sweep& sweep_of(int segment);
  const Least& least_of(int segment);
  void price(int segment, double micro_batches, Known& known);
  void settle(int segment, double micro_batches, double cutoff, Known& known);
  Known& entry(int segment, double micro_batches);

  LayoutGraph& layout_graph_;
  const StepRule rule_;
  const bool folded_;
  const Deadline& deadline_;
  bool complete_ = true;
  size_t labels_ = 0;
  std::vector<std::vector<int>> lists_;  // of states
  std::map<std::vector<int>, int> list_numbers_;
  std::map<std::pair<int, int>, Flow> flows_;   // by step and list
  std::vector<std::optional<Sweep>> sweeps_;    // by segment
  std::vector<std::optional<Least>> least_;     // likewise
  std::map<double, std::vector<Known>> known_;  // by micro-batches and segment
  std::vector<Known>* last_ = nullptr;          // asked for
  double last_micro_batches_ = 0;
};

}  // namespace trireme
