// What a run would be like: plans of an experiment on a clock, with costs of this machine or of one that is described.
#pragma once

#include "forecast/predict_program.h"

namespace trireme {

/// As make_plan, with pipelines balanced by the source's seconds and devices as fast as its cluster's.
Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, const CostSource& source);

/// The row that a run of this plan would give, but for what training alone can tell; memory of every device, or with
/// more than 64 of one for all that do the same. Does not throw where a device's memory is too small: the row says so,
/// and what it would take if it were not.
RunResult predict(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                  const PredictionOptions& options = {});

}  // namespace trireme
