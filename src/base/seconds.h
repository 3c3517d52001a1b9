// The clock that durations are taken from.
#pragma once

namespace trireme {

/// Seconds of the steady clock: only differences mean anything. Safe from any thread.
double steady_seconds();

constexpr double kSecondsPerHour = 3600;

}  // namespace trireme
