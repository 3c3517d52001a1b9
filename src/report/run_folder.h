// The folder a run leaves behind; its files are documented in docs/run-folder.md. At any moment, kill -9 included, it
// is readable: run.json is replaced as a whole, metrics.jsonl and the TensorBoard events grow by whole records.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "report/files.h"
#include "report/tensorboard.h"
#include "train/observer.h"

namespace trireme {

/// What to do where the folder already holds a run (or anything else).
enum class IfExists {
  refuse,        ///< a user error that names the folder
  pick_another,  ///< appends -2, -3, ... to the name
  go_on,         ///< it is this run's own, begun by processes before this one (report/earlier_run.h)
};

/// "runs/mnist-20260131-235959" from the experiment's name and an ISO 8601 time; characters that are awkward in file
/// names become '-'.
std::filesystem::path default_run_path(std::string_view experiment, std::string_view started);

/// One run's folder, or the part of a comparison's folder that belongs to one strategy. Not thread-safe; used from the
/// training's coordinating thread. Throws run errors that name the file when the disk refuses.
class RunFolder : public TrainObserver {
 public:
  /// Creates the folder and the run.json that claims it ("status": "running"). An existing empty folder is taken as it
  /// is.
  explicit RunFolder(std::filesystem::path path, IfExists if_exists = IfExists::refuse);
  ~RunFolder() override;

  const std::filesystem::path& path() const { return path_; }

  /// run.json with the rows so far, "status": "running".
  void update(const ExperimentResult& so_far);

  /// run.json with its final status, trace.json where a row has a timeline, report.html. What the disk refuses keeps
  /// nothing else from being written, and is thrown at the end.
  void finish(const ExperimentResult& result);

  /// plan.json, as text in the plan's own format.
  void write_plan(std::string_view text);

  void on_step(const StepReport& report) override;
  void on_evaluation(const EvaluationPoint& point) override;
  /// weights.safetensors.
  void on_weights(const Weights& weights) override;

 private:
  void open_metrics();
  void write_metrics(nlohmann::json line, int64_t step, const std::vector<Metric>& metrics, std::optional<double> loss);
  void write_final_metrics(const RunResult& row);

  std::filesystem::path path_;
  std::unique_ptr<AppendFile> metrics_;  ///< created by the first report: a comparison's own folder has none
  std::unique_ptr<EventWriter> events_;
};

}  // namespace trireme
