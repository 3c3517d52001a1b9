// The folder that a run writes. docs/run-folder.md documents its files. It is readable at any time, even after kill -9:
// run.json is replaced as a whole; metrics.jsonl and the TensorBoard events grow by whole records.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "model/input_form.h"
#include "report/files.h"
#include "report/tensorboard.h"
#include "train/observer.h"

namespace trireme {

/// What to do if the folder already contains a run (or anything else).
enum class IfExists {
  refuse,        ///< a user error that names the folder
  pick_another,  ///< appends -2, -3, ... to the name
  go_on,         ///< the folder belongs to this run and was begun by earlier processes (report/earlier_run.h)
};

/// Returns "runs/mnist-20260131-235959" from the experiment's name and an ISO 8601 time. Characters that are unsuitable
/// for file names become '-'.
std::filesystem::path default_run_path(std::string_view experiment, std::string_view started);

/// The log of a rank that is a process: logs/rank-1.log of the run folder.
std::filesystem::path rank_log(const std::filesystem::path& folder, int rank);

/// Throws the user error of IfExists::refuse if a run could not use this folder now. For a verb that works for a while
/// before it writes.
void check_run_folder(const std::filesystem::path& path);

/// The folder of a run, or the part of a comparison's folder that belongs to one strategy. Not thread-safe; used by the
/// training's coordinating thread. Throws run errors that name the file if a write fails.
class RunFolder : public TrainObserver {
 public:
  /// Creates the folder and the run.json that claims it ("status": "running"). Uses an existing folder if it is empty.
  explicit RunFolder(std::filesystem::path path, IfExists if_exists = IfExists::refuse);
  ~RunFolder() override;

  const std::filesystem::path& path() const { return path_; }

  /// Writes run.json with the rows so far and "status": "running".
  void update(const ExperimentResult& so_far);

  /// Writes run.json with its final status, trace.json if a row has a timeline, and report.html. If one file cannot be
  /// written, the others are still written, and the error is thrown at the end.
  void finish(const ExperimentResult& result);

  /// Writes plan.json. `text` is in the plan's own format.
  void write_plan(std::string_view text);

  /// Writes inputs.json: how raw values become the samples' data.
  void write_inputs(const InputForm& inputs);

  void on_step(const StepReport& report) override;
  void on_evaluation(const EvaluationPoint& point) override;
  /// Writes weights.safetensors.
  void on_weights(const Weights& weights) override;

 private:
  void open_metrics();
  void write_metrics(nlohmann::json line, int64_t step, const std::vector<Metric>& metrics, std::optional<double> loss);
  void write_final_metrics(const RunResult& row);

  std::filesystem::path path_;
  std::unique_ptr<AppendFile> metrics_;  ///< created by the first report; a comparison's own folder has none
  std::unique_ptr<EventWriter> events_;
};

}  // namespace trireme
