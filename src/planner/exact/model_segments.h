// The model as a search over its layers sees it: which values are live between two layers, where stages may be cut, and
// which runs of layers are alike, so that what was found for one holds for the other.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "planner/exact/model_facts.h"

namespace trireme {

/// A layer in its surroundings. Values made by layers and still to be read are live; they are listed in the order of
/// the layers, and a slot is a place in that list.
struct LayerStep {
  NodeId node = 0;                    ///< one of the layers that are alike in this
  std::vector<int> input_slots = {};  ///< of each input in the list before the layer; -1: the batch
  std::vector<int> survivors = {};    ///< slots of the list before that are in the list after, in order
  bool output_lives = false;          ///< and its output is the last of the list after
  bool run_begins = false;            ///< of what is recomputed together
  std::vector<bool>
      shared;  ///< by group of tied parameters: an earlier layer of the stage has it (only groups that this layer has)
};

/// Units are the runs of layers between two neighbouring cuts; a segment is a run of units: what a stage may hold.
class ModelSegments {
 public:
  explicit ModelSegments(const ModelFacts& facts);

  const ModelFacts& facts() const { return facts_; }
  int units() const { return int(cuts_.size()) - 1; }
  NodeId cut(int i) const { return cuts_[size_t(i)]; }  ///< the first layer of unit i; i = units(): the end
  const std::string& cuts_in_words() const { return cuts_in_words_; }

  /// Alike segments have one number. They begin with the same number of live values.
  struct Segment {
    int before = -1;         ///< the segment without its last unit; -1: it has one unit only
    std::vector<int> steps;  ///< of its last unit
    int begin = 0, end = 0;  ///< of one such segment, in units
  };
  int segment_of(int begin, int end) const { return numbers_[size_t(begin)][size_t(end - begin - 1)]; }
  const Segment& segment(int number) const { return segments_[size_t(number)]; }
  int segments() const { return int(segments_.size()); }
  /// Of all layers of the segment.
  std::vector<int> steps_of(int number) const;

  const LayerStep& step(int number) const { return steps_[size_t(number)]; }
  int steps() const { return int(steps_.size()); }

  /// Values live right before a layer (or the end).
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
