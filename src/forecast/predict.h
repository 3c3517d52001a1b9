// Predicts runs: simulates plans of an experiment, with the costs of this machine or of a described machine.
#pragma once

#include "forecast/predict_program.h"
#include "plan/layer_seconds.h"

namespace trireme {

/// As make_plan of experiment/make_plan.h, but pipelines are balanced by the source's seconds, and devices have the
/// speeds of its cluster.
Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, const CostSource& source);

/// Returns the seconds of forward plus backward of each layer with `samples` samples on one device, the first.
LayerSeconds layer_seconds(const Model& model, const CostSource& source, int64_t samples);

/// Returns the row that a run of this plan would give, except values that only training can give. Memory is given for
/// each device; with more than 64 devices, for one device of each group of equal ones. If a device's memory is too
/// small, the row says so, and gives the times as if it were not. Does not throw in that case.
RunResult predict(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                  const PredictionOptions& options = {});

}  // namespace trireme
