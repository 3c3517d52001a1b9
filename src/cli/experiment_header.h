// What a result says about its experiment before any strategy has run.
#pragma once

#include "data/dataset.h"
#include "train/experiment.h"
#include "train/result.h"

namespace trireme {

/// `model`: with the initial values that it is trained from.
ExperimentResult experiment_header(const Experiment& experiment, const TaskData& data, const Model& model);

}  // namespace trireme
