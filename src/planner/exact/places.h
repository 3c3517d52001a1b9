// Searches by the place of a stage. Places whose devices and links are alike share what is found.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "planner/exact/segment_search.h"
#include "planner/exact/step_model.h"

namespace trireme {

/// Used by one thread. The arguments outlive it.
class Places {
 public:
  Places(const Outline& outline, const StepModel& model, const Deadline& deadline)
      : outline_(outline), model_(model), deadline_(deadline) {}

  const Outline& outline() const { return outline_; }
  const StepModel& model() const { return model_; }

  /// References stay valid.
  Trellis& trellis(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied);
  /// Bounds for all pipelines whose stages lie at some of `places`, by cut.
  struct Fills {
    std::vector<double> before, after;  ///< least fill of all layers before a cut, and after it
    double main = 0;                    ///< least sum of all stages' mains
  };
  const Fills& fills(const std::set<SegmentSearch*>& places);
  SegmentSearch& search(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied, const StepRule& rule, bool folded);

  size_t labels() const;  ///< made by all searches

 private:
  /// What a stage's costs depend on: nodes as they follow each other, kinds, speeds, memory, links, and whether its borders lie between nodes.
  std::vector<double> looks_of(DeviceSpan span) const;
  DeviceSpan first_like(DeviceSpan span);

  /// The least sum of `value` over all cuts of the units.
  template <class Value>
  std::vector<double> least_sums(Value&& value) const;

  const Outline& outline_;
  const StepModel& model_;
  const Deadline& deadline_;
  std::map<std::set<SegmentSearch*>, Fills> fills_;
  std::map<std::pair<int, int>, DeviceSpan> alike_;
  std::map<std::vector<double>, DeviceSpan> first_;
  using PlaceKey = std::tuple<int, int, StageSettings, std::vector<int>>;
  std::map<PlaceKey, std::unique_ptr<Trellis>> trellises_;
  std::map<std::tuple<const Trellis*, std::vector<double>>, std::unique_ptr<SegmentSearch>> searches_;
};

}  // namespace trireme
