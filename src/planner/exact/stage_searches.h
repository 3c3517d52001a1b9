// The searches by device span. Spans whose devices and links are alike share their searches.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "planner/exact/segment_search.h"
#include "planner/exact/step_model.h"

namespace trireme {

/// Not thread-safe. The arguments must outlive this object.
class StageSearches {
 public:
  StageSearches(const ModelSegments& model_segments, const StepModel& model, const Deadline& deadline)
      : model_segments_(model_segments), model_(model), deadline_(deadline) {}

  const ModelSegments& model_segments() const { return model_segments_; }
  const StepModel& model() const { return model_; }

  /// References remain valid.
  LayoutGraph& layout_graph(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied);
  /// Lower bounds for all pipelines whose stages are from `searches`.
  struct Fills {
    std::vector<double> before, after;  ///< by cut: the least fill of all layers before it and after it
    double main = 0;                    ///< the least sum of all stages' mains
  };
  const Fills& fills(const std::set<SegmentSearch*>& searches);
  SegmentSearch& search(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied, const StepRule& rule,
                        bool folded);

  size_t labels() const;  ///< number of labels created by all searches

 private:
  /// The facts that a stage's costs depend on: the sequence of nodes, kinds, speeds, memory, links, and whether its
  /// borders are between nodes.
  std::vector<double> signature_of(DeviceSpan span) const;
  DeviceSpan first_like(DeviceSpan span);

  /// The least sum of `value` over all choices of cuts.
  template <class Value>
  std::vector<double> least_sums(Value&& value) const;

  const ModelSegments& model_segments_;
  const StepModel& model_;
  const Deadline& deadline_;
  std::map<std::set<SegmentSearch*>, Fills> fills_;
  std::map<std::pair<int, int>, DeviceSpan> alike_;
  std::map<std::vector<double>, DeviceSpan> first_;
  using LayoutGraphKey = std::tuple<int, int, StageSettings, std::vector<int>>;
  std::map<LayoutGraphKey, std::unique_ptr<LayoutGraph>> layout_graphs_;
  std::map<std::tuple<const LayoutGraph*, std::vector<double>>, std::unique_ptr<SegmentSearch>> searches_;
};

}  // namespace trireme
