// Predicts a step of a plan without an agreement, by simulating its program.
#pragma once

#include <cstdint>
#include <optional>

#include "forecast/cost_source.h"
#include "metrics/result.h"
#include "trireme/plan.h"

namespace trireme {

struct PredictionOptions {
  int steps = 3;
  bool timeline = true;
  std::optional<int64_t> epoch_samples = {};  ///< samples of an epoch; set: its seconds are predicted
};

/// As predict(), for a plan without an agreement.
RunResult predict_program(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                          const PredictionOptions& options = {});

}  // namespace trireme
