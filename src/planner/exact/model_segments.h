// The facts of a model for a search over its layers: the values that are live between two layers, the cut points, and
// the runs of layers that are alike. Results for one run hold for all runs that are alike.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "planner/exact/model_facts.h"

namespace trireme {

/// A layer in its context. A value is live from the layer that makes it to the last layer that reads it. Live values
/// are listed in the order of the layers; a slot is an index into that list.
struct LayerStep {
  NodeId node = 0;                    ///< one of the layers with this context
  std::vector<int> input_slots = {};  ///< per input: slot in the list before the layer; -1: the batch
  std::vector<int> survivors = {};    ///< slots of the list before the layer that remain in the list after it, in order
  bool output_lives = false;          ///< the layer's output is the last entry of the list after it
  bool run_begins = false;            ///< a run that is recomputed together starts here
  std::vector<bool>
      shared;  ///< by group of tied parameters: an earlier layer of the stage has it (only groups that this layer has)
};

/// A unit is the run of layers between two neighbouring cut points. A segment is a run of units: the layers that a
/// stage may hold.
class ModelSegments {
 public:
  explicit ModelSegments(const ModelFacts& facts);

  const ModelFacts& facts() const { return facts_; }
  int units() const { return int(cuts_.size()) - 1; }
  NodeId cut(int i) const { return cuts_[size_t(i)]; }  ///< the first layer of unit i; for i = units(): the end
  const std::string& cuts_in_words() const { return cuts_in_words_; }

  /// Segments that are alike have one number. They start with the same number of live values.
  struct Segment {
    int before = -1;         ///< number of the segment without its last unit; -1: it has only one unit
    std::vector<int> steps;  ///< of its last unit
    int begin = 0, end = 0;  ///< of one segment with this number, in units
  };
  int segment_of(int begin, int end) const { return numbers_[size_t(begin)][size_t(end - begin - 1)]; }
  const Segment& segment(int number) const { return segments_[size_t(number)]; }
  int segments() const { return int(segments_.size()); }
  /// The steps of all layers of the segment.
  std::vector<int> steps_of(int number) const;

  const LayerStep& step(int number) const { return steps_[size_t(number)]; }
  int steps() const { return int(steps_.size()); }

  /// The values that are live immediately before a layer (or the end).
  const std::vector<NodeId>& live_before(NodeId node) const { return live_[size_t(node)]; }

 private:
  void find_live();
  void choose_cuts();
  std::vector<NodeId> narrow_cuts(bool at_blocks) const;
  int step_of(NodeId node, NodeId stage_begin);
  void number_segments();

  const ModelFacts& facts_;
  std::vector<std::vector<NodeId>> live_;
  std::vector<NodeId> cuts_;
  std::string cuts_in_words_;
  std::vector<LayerStep> steps_;
  std::map<std::vector<int>, int> step_numbers_;
  std::map<std::pair<NodeId, std::vector<bool>>, int> steps_known_;
  std::vector<Segment> segments_;
  std::map<std::pair<int, std::vector<int>>, int> segment_numbers_;
  std::vector<std::vector<int>> numbers_;
};

}  // namespace trireme
