// Measures what the workers of one process (backend `local`) take to communicate.
#pragma once

#include <utility>
#include <vector>

#include "profile/profile.h"

namespace trireme {

/// For every number of workers in `workers` (at least 2 each). Takes a second or two per number.
LinkMeasurement measure_links(const std::vector<int>& workers);

/// The line with neither latency nor slope below zero from which (bytes, seconds) are least distant, in the sum of
/// absolute logarithms of ratios: a factor counts the same at all sizes, and a disturbed point does not pull. With the
/// points themselves. At least two, of different bytes, ascending.
TransferLine fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace trireme
