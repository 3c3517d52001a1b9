// The result as one HTML file that opens offline: texts, tables, charts (Chart.js, embedded) and timelines.
#pragma once

#include <string>
#include <string_view>

#include "metrics/result.h"

namespace trireme {

/// Returns the whole document. It is self-contained and loads nothing. Names and messages are escaped, whatever they
/// contain.
std::string html_report(const ExperimentResult& result);

/// Escapes `text` for HTML text and attribute values.
std::string html_escaped(std::string_view text);

}  // namespace trireme
