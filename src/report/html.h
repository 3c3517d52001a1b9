// The result as one HTML file that opens offline: texts, tables, charts (Chart.js, embedded) and timelines.
#pragma once

#include <string>
#include <string_view>

#include "metrics/result.h"

namespace trireme {

/// The whole document. Everything it shows is in it; it loads nothing. Names and messages are escaped, whatever they
/// hold.
std::string html_report(const ExperimentResult& result);

/// `text` for HTML's text and attribute values.
std::string html_escaped(std::string_view text);

}  // namespace trireme
