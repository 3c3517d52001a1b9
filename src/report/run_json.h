// Conversions of results to and from JSON. docs/run-folder.md documents every field; names are stable within a schema.
// Functions are pure and thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "metrics/result.h"

namespace trireme {

constexpr int kRunSchema = 2;
constexpr int kOldestRunSchema = 1;  ///< oldest schema that can be read

/// Returns the text of `json`. Bytes that are not UTF-8 (a file name in a message) become the replacement character.
std::string json_text(const nlohmann::json& json, int indent = -1);

/// Returns the content of run.json. Timelines are omitted (they are in trace.json). A row whose losses are not all
/// finite gets a warning, and null in place of those losses.
nlohmann::json to_json(const ExperimentResult& result);

/// The inverse of to_json; null losses become NaN. `where` names the source in errors. Throws a user error for an
/// unreadable schema, a missing name or a value of the wrong type. Ignores unknown names.
ExperimentResult from_json(const nlohmann::json& json, const std::string& where = "run.json");

/// Conversions of one row with its timeline, as a child process sends it to its parent. Nothing is lost, except that
/// infinite numbers become NaN.
nlohmann::json row_to_json(const RunResult& row);
RunResult row_from_json(const nlohmann::json& json, const std::string& where = "row");

}  // namespace trireme
