// The clock for all durations.
#pragma once

namespace trireme {

/// Returns seconds of the steady clock; only differences have a meaning. Thread-safe.
double steady_seconds();

constexpr double kSecondsPerHour = 3600;

}  // namespace trireme
