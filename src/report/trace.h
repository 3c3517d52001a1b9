// Timelines as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: the JSON trace event format.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "metrics/result.h"

namespace trireme {

/// Lane of each event within its worker. Lane 0 holds the events that nest or follow one another; an event that
/// overlaps another one without lying inside it (communication beside computation) goes to the first lane where it does
/// not.
std::vector<int> event_lanes(const Timeline& timeline);

/// A process per row that has a timeline (pid: its index in the result, from 1), a thread per worker and lane (tid:
/// rank + workers x lane). Times in microseconds since the step began; args: micro_batch (where the event has one),
/// bytes sent.
nlohmann::json trace_json(const ExperimentResult& result);

}  // namespace trireme
