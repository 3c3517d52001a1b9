// What `trireme train` does, whether its workers are threads of this process or processes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "experiment/run_spec.h"
#include "train/observer.h"
#include "trireme/dataset.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// What is trained, on what.
struct TrainSubject {
  RunSpec experiment;
  TaskData data;
  Model model;
};

/// Reads it all. Errors (user).
TrainSubject read_subject(const ExperimentOptions& options);

/// Under a plan or an update policy.
using Train = std::function<RunResult(TrainObserver& observer)>;

/// What the run is called and shown with.
struct TrainShow {
  const Plan* plan = nullptr;                    ///< written to the run folder; null under an update policy
  std::vector<std::string> notes = {};           ///< lines above the progress bar
  std::vector<std::string> initial_values = {};  ///< where they come from, for run.json; empty: from the model
  bool evaluations = false;                      ///< are shown as they come
  bool goes_on = false;                          ///< in the run folder, which processes before this one have begun
  std::function<void(const std::filesystem::path& folder)> on_folder =
      {};  ///< told of the run folder before training begins
  /// Adds to what is told of the run. May be empty.
  std::function<void(ExperimentResult& result)> describe = {};
  /// Once training has ended: one line on who goes on with the run in this folder, which takes the place of the result;
  /// "": nobody does. May be empty.
  std::function<std::string(const RunResult& row)> hands_over = {};
  /// Told what is printed below the progress bar, but for tables. May be empty.
  std::function<void(const std::string& lines)> on_end = {};
};

class RunFolder;

/// folder.finish(result). What the disk refuses of it, which has been said too; "": nothing.
std::string finish_folder(RunFolder& folder, const ExperimentResult& result);

/// Makes a run folder, trains with reports to it and to the screen or the parent process, and returns the exit code.
int train_into_folder(const TrainOptions& options, const TrainSubject& subject, const TrainShow& show,
                      const Train& train);

}  // namespace trireme
