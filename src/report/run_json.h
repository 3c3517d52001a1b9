// Results as JSON and back. The form is documented, field by field, in docs/run-folder.md; names are stable within a
// schema. Functions are pure and safe from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "metrics/result.h"

namespace trireme {

constexpr int kRunSchema = 2;
constexpr int kOldestRunSchema = 1;  ///< that can still be read

/// Text of `json`; bytes that are not UTF-8 (a file name in a message) become the replacement character.
std::string json_text(const nlohmann::json& json, int indent = -1);

/// What run.json holds. Timelines are left out (they are in trace.json). A row whose losses are not all finite carries
/// a warning that says so, and null in their place.
nlohmann::json to_json(const ExperimentResult& result);

/// The inverse of to_json; null losses become NaN. `where` names the source in errors. Throws a user error for a schema
/// it cannot read, a missing name or a value of the wrong type. Names it does not know are ignored.
ExperimentResult from_json(const nlohmann::json& json, const std::string& where = "run.json");

/// One row with its timeline: what a child process hands to its parent. Nothing is lost except that infinite numbers
/// come back as NaN.
nlohmann::json row_to_json(const RunResult& row);
RunResult row_from_json(const nlohmann::json& json, const std::string& where = "row");

}  // namespace trireme
