// Timelines as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: the JSON trace event format.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "metrics/result.h"

namespace trireme {

/// Returns the lane of each event within its worker. Lane 0 contains events that nest or follow each other. An event
/// that overlaps another one without lying inside it (communication while computing) gets the first lane in which it
/// does not.
std::vector<int> event_lanes(const Timeline& timeline);

/// Returns the trace. Each row with a timeline is a process (pid: its index in the result, from 1). Each worker and
/// lane is a thread (tid: rank + workers x lane). Times are in microseconds since the step began. args: micro_batch (if
/// the event has one) and bytes sent.
nlohmann::json trace_json(const ExperimentResult& result);

}  // namespace trireme
