// The common part of `trireme train`, for workers that are threads of this process and for processes.
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

/// The experiment, data and model of a run.
struct TrainSubject {
  RunSpec experiment;
  TaskData data;
  Model model;
};

class Progress;

/// Opens the experiment's data and builds its model; `progress` shows phases that last (null: not). Errors (user).
TrainSubject open_subject(RunSpec experiment, Progress* progress = nullptr);

/// Creates a new folder for a run of the experiment with this name, and chooses its name like `trireme train`. Errors
/// (user): it cannot be created.
std::filesystem::path free_run_path(const std::string& experiment);

/// Trains under a plan or an update policy.
using Train = std::function<RunResult(TrainObserver& observer)>;

/// How the run is named, shown and recorded.
struct TrainShow {
  const Plan* plan = nullptr;                    ///< written to the run folder; null under an update policy
  std::vector<std::string> notes = {};           ///< lines above the progress bar
  std::vector<std::string> initial_values = {};  ///< their origin, for run.json; empty: that of the model
  bool evaluations = false;                      ///< show evaluations as they arrive
  bool goes_on = false;                          ///< continue in the run folder, which earlier processes have begun
  /// Gets the run folder before training begins.
  std::function<void(const std::filesystem::path& folder)> on_folder = {};
  /// Adds to the description of the run. May be empty.
  std::function<void(ExperimentResult& result)> describe = {};
  /// Called after training has ended. Returns a line about the group that continues the run in this folder, which
  /// replaces the result; "": none does. May be empty.
  std::function<std::string(const RunResult& row)> hands_over = {};
  /// Gets the text that is printed below the progress bar, except tables. May be empty.
  std::function<void(const std::string& lines)> on_end = {};
};

class RunFolder;

/// Calls folder.finish(result). Returns the error if something could not be written, after printing it; "" otherwise.
std::string finish_folder(RunFolder& folder, const ExperimentResult& result);

/// Creates a run folder, trains with reports to it and to the screen or the parent process, and returns the exit code.
int train_into_folder(const TrainOptions& options, const TrainSubject& subject, const TrainShow& show,
                      const Train& train);

}  // namespace trireme
