// All ways to divide the layers of a stage, as a graph of states. A state holds the layout of each live value. A path
// of a stage through the graph, layer by layer, is a choice of one candidate per layer.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/exact/model_segments.h"
#include "planner/exact/stage_costs.h"

namespace trireme {

/// How all layers must split a group of tied parameters; nullopt: no constraint.
struct TiedCut {
  Placement placement;
  int tensor = 1;  ///< 1 if it is not split
  friend bool operator==(const TiedCut&, const TiedCut&) = default;
};
using TiedCuts = std::vector<std::optional<TiedCut>>;  // by group; empty: no constraint

/// How a candidate splits a layer's parameter.
TiedCut cut_of(const Candidate& candidate, size_t parameter);

/// The graph of one device span and its settings. Computed lazily. Not thread-safe.
class LayoutGraph {
 public:
  struct Transition {
    int to = 0;         ///< state
    int candidate = 0;  ///< index into StageCosts::candidates
    StageTerms terms;   ///< of the layer, with the redistributions to it
  };

  /// The arguments must outlive this object.
  LayoutGraph(const ModelSegments& model_segments, const StageCosts& costs, TiedCuts tied = {})
      : model_segments_(model_segments), costs_(costs), tied_(std::move(tied)) {}

  const ModelSegments& model_segments() const { return model_segments_; }
  const StageCosts& costs() const { return costs_; }

  /// The state in which all `live` values come from outside the stage.
  int start_state(size_t live) { return state_number(std::vector<int>(live, kOutside)); }
  /// One transition per state and layout of the output; more if none of them is best in every term. The reference
  /// remains valid.
  const std::vector<Transition>& transitions(int step, int state);
  /// The cost of the values that other stages read, for a stage that ends in a state. `live`: these values.
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
