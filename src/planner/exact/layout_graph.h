// All ways to divide the layers of a stage, as a graph of states: a state says in which layout each live value lies.
// The way of a stage through it, layer by layer, is a choice of a candidate for every layer.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/exact/model_segments.h"
#include "planner/exact/stage_costs.h"

namespace trireme {

/// How a group of tied parameters is to be cut, everywhere; nullopt: nobody asks.
struct TiedCut {
  Placement placement;
  int tensor = 1;  ///< 1 where it is whole
  friend bool operator==(const TiedCut&, const TiedCut&) = default;
};
using TiedCuts = std::vector<std::optional<TiedCut>>;  // by group; empty: nobody asks

/// How a candidate cuts a layer's parameter.
TiedCut cut_of(const Candidate& candidate, size_t parameter);

/// Of one stage's place and settings; grows as it is asked. Used by one thread.
class LayoutGraph {
 public:
  struct Transition {
    int to = 0;         ///< state
    int candidate = 0;  ///< index into StageCosts::candidates
    StageTerms terms;   ///< of the layer, with the moves to it
  };

  /// The arguments outlive it.
  LayoutGraph(const ModelSegments& model_segments, const StageCosts& costs, TiedCuts tied = {})
      : model_segments_(model_segments), costs_(costs), tied_(std::move(tied)) {}

  const ModelSegments& model_segments() const { return model_segments_; }
  const StageCosts& costs() const { return costs_; }

  /// All `live` values come from outside.
  int start_state(size_t live) { return state_number(std::vector<int>(live, kOutside)); }
  /// One per state and layout of the output; more where none of them is best in everything. The reference stays valid.
  const std::vector<Transition>& transitions(int step, int state);
  /// What a stage that ends in a state pays for the values that others read; `live`: which they are.
  StageTerms leave(int state, const std::vector<NodeId>& live) const;

  size_t states() const { return states_.size(); }

 private:
  static constexpr int kOutside = -1;

  int state_number(std::vector<int> layouts);
  int layout_number(const StageLayout& layout);
  bool allowed(NodeId node, const Candidate& candidate) const;
  StageTerms terms_of(const LayerStep& step, const Candidate& candidate, int state) const;

  const ModelSegments& model_segments_;
  const StageCosts& costs_;
  const TiedCuts tied_;
  std::vector<StageLayout> layouts_;
  std::vector<std::vector<int>> states_;  // layouts by slot
  std::map<std::vector<int>, int> state_numbers_;
  std::map<std::pair<int, int>, std::vector<Transition>> transitions_;  // by step and state
};

}  // namespace trireme
