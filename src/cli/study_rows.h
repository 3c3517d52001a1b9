// The rows of a study: what is trained for each run, how long that takes, and which rows an earlier study has trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/jobs.h"
#include "cli/options.h"
#include "experiment/run_spec.h"
#include "metrics/result.h"
#include "study/study.h"

namespace trireme {

class ForkServer;

/// What all runs of a study have in common.
struct StudyInputs {
  StudySize size = StudySize::usual;
  std::optional<std::filesystem::path> data_dir;
  std::filesystem::path folder;  ///< of the study
};

/// A training: a row of a run, or a trial of the search for a value.
struct StudyTraining {
  Job job;
  std::vector<std::string> words;                 ///< of `trireme train`, except --out
  std::filesystem::path folder;                   ///< of its run
  std::map<std::string, std::string> files = {};  ///< that its experiment names, with their SHA-256
  std::string value = "";                         ///< that a trial tries; empty: a row
  double samples = 0;                             ///< that it trains with
  double evaluated = 0;                           ///< samples in its evaluations
  int parallel = 1;                               ///< workers that compute at the same time
  std::string metric = "";                        ///< StudyRun::metric
  bool generated_data = false;                    ///< true: the real data are not on this machine
};

/// A run of a study, ready to be trained.
struct PreparedRun {
  const StudyRun* run = nullptr;
  std::string problem = "";  ///< why it cannot be trained; empty: it can
  ExperimentResult header = {};
  std::vector<Job> jobs = {};
  std::vector<std::optional<RunResult>> ruled_out = {};  ///< by job: a row that cannot be trained
  std::vector<StudyTraining> trials = {};                ///< in the order of jobs, then of values
  std::vector<int64_t> seeds = {};                       ///< of each row; empty: the experiment's
  std::vector<StudyTraining> rows = {};  ///< by job, then by seed; words lack the value that the trials choose
  double time_limit = 0;                 ///< seconds of each training; 0: none
  int64_t batch = 0;
  std::vector<std::string> probe = {};  ///< words of a training in real time, without its plan
};

/// Reads the run's experiment, data and model, and lists its trainings. Errors become the run's problem.
PreparedRun prepare_run(const StudyRun& run, const StudyInputs& inputs);

/// Returns the row that an earlier call has trained, with the training's metric first. It must have the same words, and
/// the files that the words and the experiment name must be unchanged. A row with generated data does not count if the
/// real data are here now. nullopt: there is no such row. Failed rows are trained again, failed trials are not.
std::optional<RunResult> kept_row(const StudyTraining& training);

/// Returns the row with this metric as the first of each evaluation, so that main() returns it. An empty `metric`
/// changes nothing.
RunResult with_main_metric(RunResult row, const std::string& metric);

/// Prepares the folder of a training: an existing folder is renamed, never removed. Writes the words into the new one,
/// for kept_row().
void begin_training(const StudyTraining& training);

/// What a training costs on this machine.
struct TrainingCost {
  double start = 0;   ///< seconds to start, read the data and evaluate once
  double sample = 0;  ///< seconds to train with one sample on one device
};

/// Measures by a short training on one device, in real time. nullopt: it failed.
std::optional<TrainingCost> measure_cost(const PreparedRun& run, ForkServer& forks);

/// Returns an estimate in seconds. Evaluating a sample counts a third of training with it (no backward pass).
double estimated_seconds(const StudyTraining& training, const TrainingCost& cost);

/// Returns the index of the best of these rows: by the main metric at the end, by the loss if there is none. nullopt:
/// none ended normally with a finite loss.
std::optional<size_t> best_of(const std::vector<RunResult>& trials);

}  // namespace trireme
