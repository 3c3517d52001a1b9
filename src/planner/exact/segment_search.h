// The best ways to divide the layers of one stage, by an exact dynamic program over the layout graph.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/deadline.h"
#include "planner/exact/labels.h"

namespace trireme {

/// Searches the segments on one device span under one rule. Not thread-safe.
class SegmentSearch {
 public:
  /// `layout_graph` and `deadline` must outlive this object. `folded`: only fill + main matters (a plan of one stage);
  /// all of it is added to main.
  SegmentSearch(LayoutGraph& layout_graph, const StepRule& rule, bool folded, const Deadline& deadline);

  struct Known {
    bool asked = false, priced = false;
    /// One choice: no division has less fill or less main. First from sums that ignore memory and hiding; once
    /// `priced`, also from memory (memory_price.h). Empty if no division fits.
    std::vector<SegmentChoice> bound;
    /// All non-dominated divisions that fit and whose fill + main is below `settled_below` (0: not searched).
    std::vector<SegmentChoice> settled;
    double settled_below = 0;
    std::optional<SegmentChoice> real;  ///< a good division that fits, if one was found
    int late = 0;                       ///< number of layers whose reductions matter for it (SumWeights::late)
    double byte = 0;                    ///< a good price per byte
    /// The choices to use if only those below `cutoff` matter.
    const std::vector<SegmentChoice>& below(double cutoff) const { return settled_below >= cutoff ? settled : bound; }
  };
  const Known& known(int segment, double micro_batches) { return entry(segment, micro_batches); }
  /// Lower bounds that ignore memory; infinite if there is no division.
  double least_fill(int segment);
  double least_main(int segment);

  /// Refines a segment by one step: first prices it, then settles it for `cutoff`.
  void look_closer(int segment, double micro_batches, double cutoff);

  bool complete() const {
    return complete_;
  }                                          ///< true if no settled choice was ever dropped, including by the deadline
  size_t labels() const { return labels_; }  ///< number of labels created so far

 private:
  /// The least sums over all paths from the segment's start to a state, each minimised separately.
  struct Least {
    double fill, main, late;  ///< late: main plus reductions, less what hides them
    double state, stored;     ///< bytes; stored: per micro-batch
    void take(const Least& other);
    Least plus(const Least& other) const;
  };
  static const Least kNone;
  struct Sweep {
    int list = 0;              ///< number of the list of states
    std::vector<Least> least;  ///< by position in that list
  };
  /// All transitions of a layer from a list of states, for repeated traversal.
  struct Flow {
    struct Edge {
      int from = 0, to = 0;  ///< positions in the lists
      Least adds;
    };
    int list = 0;  ///< number of the list of the states after the layer
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
  std::vector<std::optional<Least>> least_;     // by segment
  std::map<double, std::vector<Known>> known_;  // by micro-batches and segment
  std::vector<Known>* last_ = nullptr;          // the entry of known_ that was used last
  double last_micro_batches_ = 0;
};

}  // namespace trireme
