// The description of its experiment that a result contains before any strategy has run.
#pragma once

#include <string>

#include "experiment/experiment.h"
#include "metrics/result.h"
#include "trireme/dataset.h"

namespace trireme {

/// "2026-01-31T23:59:59Z"
std::string utc_now();

/// `model`: with the initial values from which it is trained.
ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model);

}  // namespace trireme
