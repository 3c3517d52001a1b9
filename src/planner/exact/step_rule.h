// How the stages' terms make a step: the closed formulas of the schedules (docs/schedules.md), for stages that may differ.
//
//   step = sum over stages of fill + max over stages of (main + exposed reduction)
//
// gpipe, 1f1b: fill t, main (m - 1) t + once, where t is what a stage does for a micro-batch and `once` what it does per step (update, traffic
//   that nothing hides): for equal stages (m + p - 1) t + once. (Alpa, OSDI 2022, has sum t + (m - 1) max t.)
// zero-bubble: with a the part of t that others wait for and w the rest (weights' part of backward), fill a, main
//   (m - 1) a + max(1, m - p + 1) w + once.
// interleaved, v stages per worker: no fill, main (v m + p - 1) t + v once with t, once of one stage: as if a worker's stages were all like it.
#pragma once

#include <string>

#include "planner/exact/stage_costs.h"

namespace trireme {

struct PipelineShape {
  int positions = 1;      ///< p
  int chunks = 1;         ///< v
  int micro_batches = 1;  ///< m
};

struct StepRule {
  double fill_compute = 0, fill_weight = 0;  ///< factors of compute + moves, and of weight_compute
  double main_compute = 0, main_weight = 0;
  double once = 1;                           ///< of what is done per step; and of what a worker holds for each of its stages

  double fill(const StageTerms& t) const { return fill_compute * (t.compute + t.moves) + fill_weight * t.weight_compute; }
  double main(const StageTerms& t) const {
    return main_compute * (t.compute + t.moves) + main_weight * t.weight_compute + once * (t.exposed + t.update);
  }
};

bool knows_schedule(const std::string& schedule);
/// One of "gpipe", "1f1b", "zero-bubble", "interleaved".
StepRule step_rule(const std::string& schedule, const PipelineShape& shape);

/// Micro-batches of a stage between forward and backward. `stages_left`: from this one to the last, itself included.
double in_flight(const std::string& schedule, const PipelineShape& shape, int stages_left);

}  // namespace trireme
