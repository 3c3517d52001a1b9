// The result as one HTML file that opens offline: texts, tables, charts (Chart.js, embedded) and timelines.
#pragma once

#include <string>
#include <string_view>

#include "metrics/result.h"
#include "report/earlier_run.h"

namespace trireme {

/// A run, and what its folder knows beside its result.
struct ReportedRun {
  const ExperimentResult* result = nullptr;
  std::string place = "";     ///< the folder
  EarlierSteps earlier = {};  ///< of a run that was resumed
};

/// Returns the whole document. It is self-contained and loads nothing. Names and messages are escaped, whatever they
/// contain. Its size is bounded for any number of rows and devices.
std::string html_report(const ReportedRun& run);
std::string html_report(const ExperimentResult& result);

/// Returns one document with two runs side by side, as A and B: what differs between them, then the charts and tables
/// with the rows of both.
std::string html_report(const ReportedRun& a, const ReportedRun& b);

/// Escapes `text` for HTML text and attribute values.
std::string html_escaped(std::string_view text);

}  // namespace trireme
