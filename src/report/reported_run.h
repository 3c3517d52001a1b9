// A run as the report shows it.
#pragma once

#include <string>

#include "metrics/result.h"
#include "report/earlier_run.h"

namespace trireme {

/// A run, and what its folder knows beside its result.
struct ReportedRun {
  const ExperimentResult* result = nullptr;
  std::string place = "";     ///< the folder
  EarlierSteps earlier = {};  ///< of a run that was resumed
};

}  // namespace trireme
