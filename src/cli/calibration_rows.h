// The rows of `trireme calibrate`: measured steps, and their predictions.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/jobs.h"
#include "experiment/run_spec.h"
#include "report/progress.h"
#include "trireme/cluster.h"
#include "trireme/dataset.h"
#include "trireme/plan.h"

namespace trireme {

/// A [[row]] of a rows file. Paths are found from the working folder.
struct MeasuredRow {
  std::string name;
  std::string where;  ///< for messages: "rows.toml: row 3"
  std::filesystem::path experiment;
  std::vector<std::string> set;  ///< key=value
  std::string plan;              ///< as for simulate --strategies
  int devices = 0;               ///< 0: as the plan says, or the experiment
  double seconds = 0;            ///< of one step
};

struct RowsFile {
  std::vector<MeasuredRow> rows;  ///< at least one
  std::string source;             ///< who measured them; may be empty
};

/// Errors (user): with file, line, key, value, reason and next step.
RowsFile read_rows(const std::filesystem::path& path);

/// Settings for reading rows that are not in their file.
struct RowReading {
  std::filesystem::path cluster;
  std::optional<std::filesystem::path> data_dir;
  bool trust = false;
  std::set<std::string> told;  ///< messages already printed about data that are not on this machine
};

/// A row as `trireme simulate` predicts it.
class PredictedRow {
 public:
  /// Reads the experiment and makes the plan for the cluster. Errors (user), each with the row's name: an error in the
  /// experiment; the plan does not fit.
  PredictedRow(const MeasuredRow& row, const Cluster& cluster, RowReading& reading, Progress& progress);
  PredictedRow(const PredictedRow&) = delete;
  PredictedRow& operator=(const PredictedRow&) = delete;

  const Plan& plan() const { return plan_; }
  const Job& job() const { return job_; }
  /// Returns the seconds of a step on the cluster, under the plan that the constructor made.
  double seconds(const Cluster& cluster) const;
  /// The same, under a plan that is made for this cluster: its pipelines are balanced by this cluster's seconds.
  double seconds_of_own_plan(const Cluster& cluster) const;

 private:
  PredictedRow(const MeasuredRow& row, RunSpec experiment, const Cluster& cluster, RowReading& reading,
               Progress& progress);
  double seconds(const Cluster& cluster, const Plan& plan) const;

  std::string where_;
  RunSpec experiment_;
  TaskData data_;
  Model model_;
  Job job_;
  Plan plan_;
};

}  // namespace trireme
