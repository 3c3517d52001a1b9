// The clocks: one for durations, one for dates.
#pragma once

namespace trireme {

/// Returns seconds of the steady clock; only differences have a meaning. Thread-safe.
double steady_seconds();

/// Returns the seconds since 1970 by the system's clock, which may be set back. Thread-safe.
double system_seconds();

constexpr double kSecondsPerHour = 3600;

}  // namespace trireme
