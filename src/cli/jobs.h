// The rows that an experiment asks for: every strategy on every number of devices.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/batches.h"
#include "experiment/run_spec.h"
#include "metrics/result.h"

namespace trireme {

/// One row to be.
struct Job {
  std::string strategy;  ///< what to give to --plan, but for a planner's
  int devices = 1;
  std::string label;                     ///< in progress bars; no two jobs share one
  std::string folder;                    ///< in the run folder; no two jobs share one
  std::filesystem::path plan_file = {};  ///< where a planner's plan was written
};

/// Errors (user): strategies that are none, plan files that do not fit; `to_run`: more workers than a process can have.
std::vector<Job> list_jobs(const RunSpec& experiment, const Model& model, bool to_run);

/// Gives the job's row its names, and a warning where a planner's plan uses fewer devices than the job has.
void name_row(const Job& job, RunResult& row);

/// A row of which nothing was measured.
RunResult row_without_run(const Job& job, RunStatus status, std::string reason);

/// The row of a strategy that cannot use so many devices, so small a batch or so many micro-batches, known before
/// anything runs. `cluster` has the job's devices.
std::optional<RunResult> ruled_out(const Job& job, const RunSpec& experiment, const Model& model, const TaskData& data,
                                   const Cluster& cluster);

}  // namespace trireme
