// The description of its experiment that a result contains before any strategy has run.
#pragma once

#include <string>

#include "data/dataset.h"
#include "experiment/experiment.h"
#include "metrics/result.h"

namespace trireme {

/// "2026-01-31T23:59:59Z"
std::string utc_now();

/// `model`: with the initial values from which it is trained.
ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model);

/// Sets the experiment's price of this machine and its origin; does nothing if the experiment has none.
void describe_own_price(const Experiment& experiment, ExperimentResult& result);

}  // namespace trireme
