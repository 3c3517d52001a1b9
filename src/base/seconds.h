// The clocks: one for durations, one for dates.
#pragma once

namespace trireme {

/// Returns seconds of the steady clock; only differences have a meaning. Thread-safe.
double steady_seconds();

/// Returns the seconds since 1970 by the system's clock, which may be set back. Thread-safe.
double system_seconds();

/// Returns the seconds of a core that all threads of this process have used. Thread-safe.
double process_seconds();

constexpr double kSecondsPerHour = 3600;

}  // namespace trireme
