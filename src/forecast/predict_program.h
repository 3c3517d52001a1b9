// What a step of a plan without an agreement would be like: its program on a clock.
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
  std::optional<int64_t> epoch_samples = {};  ///< for the seconds of an epoch
};

/// As predict(), of a plan that has no agreement.
RunResult predict_program(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                          const PredictionOptions& options = {});

}  // namespace trireme
