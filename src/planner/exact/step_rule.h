// Composes the stages' terms to the time of a step, by the closed formulas of the schedules (Schedule::step_rule,
// docs/schedules.md). Stages may differ.
//
//   step = sum over stages of fill + max over stages of (main + exposed reduction)
//
// A rule has factors for t.compute + t.communication, for which other stages wait, and for t.weight_compute, the
// weights' part of backward.
#pragma once

#include "planner/exact/stage_costs.h"
#include "trireme/schedule.h"

namespace trireme {

inline double fill_seconds(const StepRule& rule, const StageTerms& t) {
  return rule.fill_compute * (t.compute + t.communication) + rule.fill_weight * t.weight_compute;
}
inline double main_seconds(const StepRule& rule, const StageTerms& t) {
  return rule.main_compute * (t.compute + t.communication) + rule.main_weight * t.weight_compute +
         rule.once * (t.exposed + t.update);
}

}  // namespace trireme
