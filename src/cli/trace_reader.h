// Reads timelines from a run folder's trace.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "metrics/result.h"

namespace trireme {

/// The inverse of trace_json (report/trace.h): gives each row of `result` its timeline, if the trace has one. `where`
/// names the source in errors. Throws a user error for a file that trace_json did not write.
void read_timelines(const nlohmann::json& trace, ExperimentResult& result, const std::string& where);

}  // namespace trireme
