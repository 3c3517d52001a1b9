// Measures the communication between the workers of one process (backend `local`), on cores or on the GPUs that they
// are placed on.
#pragma once

#include <utility>
#include <vector>

#include "profile/profile.h"

namespace trireme {

/// Measures for each number of workers in `workers`, each at least 2. Takes a second or two per number.
LinkMeasurement measure_links(const std::vector<int>& workers);

/// Fits a line to (bytes, seconds), with latency and slope not below zero. It minimises the sum of the absolute
/// logarithms of the ratios: an error factor has the same weight at all sizes, and an outlier has little influence. The
/// result includes the points. Requires at least two points with different bytes, ascending.
TransferLine fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace trireme
