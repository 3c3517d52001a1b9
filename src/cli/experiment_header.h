// What a result says about its experiment before any strategy has run.
#pragma once

#include <string>

#include "data/dataset.h"
#include "experiment/experiment.h"
#include "metrics/result.h"

namespace trireme {

/// "2026-01-31T23:59:59Z"
std::string utc_now();

/// `model`: with the initial values that it is trained from.
ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model);

/// The experiment's price of this machine, and where it is from; nothing where it has none.
void describe_own_price(const Experiment& experiment, ExperimentResult& result);

}  // namespace trireme
