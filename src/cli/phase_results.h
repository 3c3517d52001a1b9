// What the phases of a training got: their runs, the file phases.json, the table and the page over all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

inline constexpr const char* kPhasesFile = "phases.json";

/// What a phase's run got.
struct PhaseResult {
  int phase = 0;                     ///< from 1
  std::vector<std::string> changes;  ///< of the phase, as assignments
  std::filesystem::path folder;      ///< of its run
  ExperimentResult run;              ///< with one row

  const RunResult& row() const { return run.rows.front(); }
  int64_t steps() const { return row().curve.empty() ? 0 : row().curve.back().step; }
  double seconds() const { return row().curve.empty() ? 0 : row().curve.back().seconds; }
};

/// The folder of a phase's attempt: phase-2, then, after it was interrupted, phase-2.2, phase-2.3.
std::filesystem::path attempt_folder(const std::filesystem::path& folder, int phase, int attempt);
/// Number of attempts so far.
int attempts(const std::filesystem::path& folder, int phase);

/// The newest attempt of the phase, without its changes, if it was trained to its end. `steps`: of a run that was
/// killed after its last step, before it wrote its result, the checkpoint of that step counts; 0: no checkpoint does.
std::optional<PhaseResult> newest_result(const std::filesystem::path& folder, int phase, int64_t steps);

/// Writes phases.json and report.html, with what is known of the phases so far, into the folder of all phases.
/// `begins_with`: the run or checkpoint with whose state phase 1 begins; empty: none.
void write_phases(const std::filesystem::path& folder, const std::string& experiment,
                  const std::filesystem::path& begins_with, const std::vector<PhaseResult>& results);
/// What an earlier call named as `begins_with`; empty: none.
std::filesystem::path begun_with(const std::filesystem::path& folder);
/// Writes the page alone.
void write_phases_page(const std::filesystem::path& page, const std::string& experiment,
                       const std::vector<PhaseResult>& results);

/// What phases.json says, with the runs that it names.
struct PhasesRead {
  std::string experiment;
  std::vector<PhaseResult> results;
};
/// Errors (user): the file or a run that it names cannot be read.
PhasesRead read_phases(const std::filesystem::path& folder);

/// The table, the time of all phases, and where their files are.
std::string phases_text(const std::filesystem::path& folder, const std::filesystem::path& page,
                        const std::vector<PhaseResult>& results);

}  // namespace trireme
