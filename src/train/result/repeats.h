// Rows of a comparison that are run several times.
#pragma once

#include <vector>

#include "metrics/result.h"

namespace trireme {

/// Returns the median and the percentiles of measured steps. There must be a step.
StepSeconds step_seconds_of(const std::vector<double>& steps);

/// Combines the runs of one row, given in their order, into the row. Its time of a step is the median over the steps of
/// all runs that are ok; throughput and epoch follow from it. With replicas, whose epochs do not follow from their
/// steps, the epoch is the median of the runs'. The speed of the cores is the median of the runs'. Everything else is
/// that of the run whose median step is nearest. A run that is not ok gives the row its status and reason; one that the
/// user stopped after a run that is ok is left out.
RunResult merged_repeats(const std::vector<RunResult>& runs);

}  // namespace trireme
