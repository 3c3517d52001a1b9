// What a result says about its experiment before any strategy has run.
#pragma once

#include <string>

#include "experiment/experiment.h"
#include "metrics/result.h"
#include "trireme/dataset.h"

namespace trireme {

/// "2026-01-31T23:59:59Z"
std::string utc_now();

/// `model`: with the initial values that it is trained from.
ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model);

}  // namespace trireme
