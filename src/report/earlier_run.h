// Reads the records of earlier processes of a run, for a process that continues the run in the same folder.
#pragma once

#include <filesystem>
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

/// Inserts the earlier results before those of the run's last process: curve, evaluations, and when the target was
/// reached.
void add_earlier(const EarlierRun& earlier, RunResult& row);

}  // namespace trireme
