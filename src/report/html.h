// The result as one HTML file that opens offline: texts, tables, charts (Chart.js, embedded) and timelines.
#pragma once

#include <string>

#include "metrics/result.h"
#include "report/reported_run.h"

namespace trireme {

/// Returns the whole document. It is self-contained and loads nothing. Names and messages are escaped, whatever they
/// contain. Its size is bounded for any number of rows and devices.
std::string html_report(const ReportedRun& run);
std::string html_report(const ExperimentResult& result);

/// Returns one document with two runs side by side, as A and B: what differs between them, then the charts and tables
/// with the rows of both.
std::string html_report(const ReportedRun& a, const ReportedRun& b);

}  // namespace trireme
