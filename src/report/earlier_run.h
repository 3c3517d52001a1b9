// The records of earlier processes of a run: for a process that continues the run in the same folder, and for a run
// that resumes a checkpoint in a folder of its own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

struct EarlierRun {
  std::vector<CurvePoint> curve;
  std::vector<EvaluationPoint> evaluations;
};

/// The point from which the process continues.
struct GoesOnFrom {
  int64_t step = 0;                ///< steps done
  bool awaits_evaluation = false;  ///< the process begins with the evaluation that belongs to that step
};

/// Removes from the folder's metrics.jsonl the lines that will be written again, and an incomplete last line. Returns
/// what is left. `metrics`: names of the evaluations' metrics in their order; other metrics follow. Errors: those of
/// reading and writing.
EarlierRun rewind_metrics(const std::filesystem::path& run_folder, const GoesOnFrom& from,
                          const std::vector<std::string>& metrics);

/// Returns the row of a run that wrote no result, because its process was killed or still runs: the name of its plan,
/// its curve, its evaluations and its steps' times, from the folder's plan.json and metrics.jsonl. The status is
/// failed, and the reason says after which step. nullopt: the folder has no plan, or no record of a step. Errors
/// (user): a damaged file.
std::optional<RunResult> row_from_records(const std::filesystem::path& run_folder);

/// A run that resumes a checkpoint in another folder keeps the steps before it in this file: the lines of the earlier
/// runs' metrics.jsonl, and a line for each time a run was resumed.
constexpr const char* kEarlierFile = "earlier.jsonl";

/// Writes the file into `run_folder`, from the run folder in which `checkpoint` lies. If that folder has no records,
/// the file says so. If they cannot be read, a warning is printed, because only drawings need them. Errors: those of
/// writing.
void keep_earlier_steps(const std::filesystem::path& checkpoint, const GoesOnFrom& from,
                        const std::filesystem::path& run_folder);

/// The steps of earlier runs, up to the checkpoint that a run resumed.
struct EarlierSteps {
  struct Join {
    int64_t step = 0;   ///< number of steps done when the run was resumed
    std::string from;   ///< the checkpoint
    bool known = true;  ///< false: the steps before it are not known, because no readable records were beside it
  };
  std::vector<Join> joins;  ///< in the order of their steps; several if a resumed run was resumed. Empty: no run was
  EarlierRun run;
};

/// Returns what keep_earlier_steps wrote into the folder of a run; nothing if it wrote none. `result`: of the run, for
/// the order of its metrics. Errors (user): a file in another format.
EarlierSteps earlier_steps(const std::filesystem::path& run_folder, const ExperimentResult& result);

/// Inserts the earlier results before those of the run's last process: curve, evaluations, and when the target was
/// reached.
void add_earlier(const EarlierRun& earlier, RunResult& row);

}  // namespace trireme
