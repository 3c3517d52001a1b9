// The rows that an experiment requests: every strategy on every number of devices.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "experiment/batches.h"
#include "experiment/run_spec.h"
#include "metrics/result.h"

namespace trireme {

/// One planned row.
struct Job {
  std::string strategy;  ///< value for --plan, except for a planner's plan
  int devices = 1;
  std::string label;                     ///< in progress bars; unique among jobs
  std::string folder;                    ///< in the run folder; unique among jobs
  std::filesystem::path plan_file = {};  ///< file to which a planner's plan was written
  int processes = 1;                     ///< that train it; 1: its workers are threads
  int64_t batch = 0;                     ///< the row's `batch`, where the experiment's is per device; otherwise 0
  std::optional<int64_t> samples = {};   ///< RunResult::batch
};

/// Errors (user): unknown strategies, plan files that do not fit; with `to_run` also more workers than a process can
/// have.
std::vector<Job> list_jobs(const RunSpec& experiment, const Model& model, bool to_run);

/// Returns the options of the process of a row. Where the experiment's batch is per device, they name the row's batch.
ExperimentOptions options_of_row(ExperimentOptions options, const Job& job);

/// Sets the row's names and its batch. Adds a warning if a planner's plan uses fewer devices than the job has.
void name_row(const Job& job, RunResult& row);

/// Returns a row without measurements.
RunResult row_without_run(const Job& job, RunStatus status, std::string reason);

/// Returns the row of a strategy that cannot use this number of devices, this batch (also a batch per device), this
/// number of micro-batches or this length, before anything runs. nullopt: it can. `cluster` has the job's devices.
std::optional<RunResult> ruled_out(const Job& job, const RunSpec& experiment, const Model& model, const TaskData& data,
                                   const Cluster& cluster);

}  // namespace trireme
