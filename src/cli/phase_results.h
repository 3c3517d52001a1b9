// The results of the phases of a training: their runs, the file phases.json, and the table and the page of all phases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

inline constexpr const char* kPhasesFile = "phases.json";

/// The result of a phase's run.
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

/// An attempt that can be resumed.
struct ResumableAttempt {
  std::filesystem::path folder;
  int64_t step = 0;  ///< of its newest complete checkpoint
};
/// The newest attempt of the phase that has a complete checkpoint; nullopt: none has one.
std::optional<ResumableAttempt> newest_resumable(const std::filesystem::path& folder, int phase);

/// The newest attempt of the phase, without its changes, if it was trained to its end. `steps`: of a run that was
/// killed after its last step, before it wrote its result, the checkpoint of that step counts; 0: no checkpoint does.
std::optional<PhaseResult> newest_result(const std::filesystem::path& folder, int phase, int64_t steps);

/// Writes phases.json and report.html, with what is known of the phases so far, into the folder of all phases.
/// `begins_with`: the run or checkpoint with whose state phase 1 begins; empty: none.
void write_phases(const std::filesystem::path& folder, const std::string& experiment,
                  const std::filesystem::path& begins_with, const std::vector<PhaseResult>& results);
/// Writes the page alone.
void write_phases_page(const std::filesystem::path& page, const std::string& experiment,
                       const std::vector<PhaseResult>& results);

/// The contents of phases.json.
struct PhasesFile {
  struct Phase {
    int phase = 0;
    std::vector<std::string> changes;
    std::filesystem::path folder;  ///< of its run
    int64_t steps = 0;
  };
  std::string experiment;             ///< its name; empty: there is no file
  std::filesystem::path begins_with;  ///< as in write_phases()
  std::vector<Phase> phases = {};
};
/// Errors (user): the file cannot be read.
PhasesFile read_phases_file(const std::filesystem::path& folder);
/// The runs that the file of this folder names. Errors (user): one of them cannot be read.
std::vector<PhaseResult> read_results(const std::filesystem::path& folder, const PhasesFile& file);

/// The table, the time of all phases, and where their files are.
std::string phases_text(const std::filesystem::path& folder, const std::filesystem::path& page,
                        const std::vector<PhaseResult>& results);

}  // namespace trireme
