// Searches by the place of a stage. Places whose devices and links are alike share what is found.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "planner/exact/segment_search.h"
#include "planner/exact/step_model.h"

namespace trireme {

/// Used by one thread. The arguments outlive it.
class Places {
 public:
  Places(const Outline& outline, const StepModel& model) : outline_(outline), model_(model) {}

  const Outline& outline() const { return outline_; }
  const StepModel& model() const { return model_; }

  /// References stay valid.
  Trellis& trellis(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied);
  SegmentSearch& search(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied, const StepRule& rule, bool folded);

 private:
  /// What a stage's costs depend on: nodes as they follow each other, kinds, speeds, memory, links, and whether its borders lie between nodes.
  std::vector<double> looks_of(DeviceSpan span) const;
  DeviceSpan first_like(DeviceSpan span);

  const Outline& outline_;
  const StepModel& model_;
  std::map<std::pair<int, int>, DeviceSpan> alike_;
  std::map<std::vector<double>, DeviceSpan> first_;
  using PlaceKey = std::tuple<int, int, StageSettings, std::vector<int>>;
  std::map<PlaceKey, std::unique_ptr<Trellis>> trellises_;
  std::map<std::tuple<const Trellis*, std::vector<double>>, std::unique_ptr<SegmentSearch>> searches_;
};

}  // namespace trireme
