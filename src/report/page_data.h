// The numbers of the report page as JSON: what its charts draw.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/reported_run.h"

namespace trireme {

/// A run on the page.
struct PageRun {
  ReportedRun run;
  std::string name = "";  ///< "A"; "": the page has one run
};

/// Returns the rows of all runs as in run.json, with short curves and boxes, with timelines, and with the index of
/// their run. The size is bounded for any number of rows and devices: workers that do alike share a lane, curves are
/// thinned, and a row whose timeline or schedule is left out says so.
nlohmann::json page_data(const std::vector<PageRun>& runs);

/// Returns the kinds of time that occur in the rows: "measured", "modelled", "simulated".
std::vector<std::string> times_are(const ExperimentResult& result);

}  // namespace trireme
