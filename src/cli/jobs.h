// The rows that an experiment asks for: every strategy on every number of devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/batches.h"
#include "train/experiment.h"
#include "train/result.h"

namespace trireme {

/// One row to be.
struct Job {
  std::string strategy;  ///< what to give to --plan
  int devices = 1;
  std::string label;     ///< in progress bars; no two jobs share one
  std::string folder;    ///< in the run folder; no two jobs share one
};

/// Errors (user): strategies that are none, plan files that do not fit; `to_run`: more workers than a process can have.
std::vector<Job> list_jobs(const Experiment& experiment, const Model& model, bool to_run);

/// A row of which nothing was measured.
RunResult row_without_run(const Job& job, RunStatus status, std::string reason);

/// The row of a strategy that cannot use so many devices, so small a batch or so many micro-batches, known before anything runs.
/// `cluster` has the job's devices.
std::optional<RunResult> ruled_out(const Job& job, const Experiment& experiment, const Model& model, const TaskData& data,
                                   const Cluster& cluster);

}  // namespace trireme
