// What a run's folder says of it so far, for a process that goes on with the run in that folder.
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

/// Where a process goes on.
struct GoesOnFrom {
  int64_t step = 0;                ///< steps done
  bool awaits_evaluation = false;  ///< with the evaluation that belongs to that step
};

/// Takes out of the folder's metrics.jsonl what it says of what will be done again, and a last line that was cut off;
/// returns what is left. `metrics`: names of the metrics of evaluations in their order; others follow. Errors: those of
/// reading and writing.
EarlierRun take_back_to(const std::filesystem::path& run_folder, const GoesOnFrom& from,
                        const std::vector<std::string>& metrics);

/// Puts it before what the run's last process gave: its curve, its evaluations, when the target was reached.
void add_earlier(const EarlierRun& earlier, RunResult& row);

}  // namespace trireme
