// Reads timelines from a run folder's trace.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "metrics/result.h"

namespace trireme {

/// The inverse of trace_json (report/trace.h): sets the timeline of each row of `result`, if the trace has it. `where`
/// names the source in errors. Throws a user error for a file that trace_json did not write.
void read_timelines(const nlohmann::json& trace, ExperimentResult& result, const std::string& where);

}  // namespace trireme
