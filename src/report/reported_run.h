// A run as the report shows it.
#pragma once

#include <string>

#include "metrics/result.h"
#include "report/earlier_run.h"

namespace trireme {

/// A run with further facts from its folder.
struct ReportedRun {
  const ExperimentResult* result = nullptr;
  std::string folder = "";
  EarlierSteps earlier = {};  ///< of a run that was resumed
};

}  // namespace trireme
