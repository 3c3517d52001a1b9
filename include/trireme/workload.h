// Workload: a model, its data and how to train it. Makes plans for it, predicts, verifies and trains under them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/dataset.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// A value of one of the task's metrics: {"accuracy", 0.98}.
struct MetricValue {
  std::string name = {};
  double value = 0;
};

/// After one training step.
struct TrainingStep {
  int64_t step = 0;  ///< steps done, 1-based
  int64_t total_steps = 0;
  int64_t samples = 0;  ///< samples seen so far
  double seconds = 0;   ///< training time so far, evaluations excluded
  double loss = 0;      ///< mean over the step's global batch
};

/// After one evaluation on the test set.
struct TrainingEvaluation {
  int64_t step = 0;  ///< steps done
  double epoch = 0;
  double seconds = 0;                     ///< training time so far, evaluations excluded
  double loss = 0;                        ///< mean over the test set
  std::vector<MetricValue> metrics = {};  ///< the task's main metric first
};

/// Input of a run while it trains, and its reports. Callbacks are called by one thread at a time, not necessarily the
/// caller's. If a callback throws, the run ends and train() throws the same exception.
struct TrainingHooks {
  std::function<void(const TrainingStep&)> on_step = {};
  std::function<void(const TrainingEvaluation&)> on_evaluation = {};
  const std::atomic<bool>* stop = nullptr;  ///< the run ends soon after this becomes true; null: never
};

/// How a run ended. Values that were not measured are nullopt or empty.
struct TrainingResult {
  bool ok = false;
  std::string status = {};  ///< "ok", "failed", "timed out", "does not fit", "interrupted"
  std::string reason = {};  ///< why not ok, one line
  std::string plan = {};    ///< in short: "data 2 x tensor 2"
  std::vector<std::string> warnings = {};
  std::optional<double> step_seconds = {};        ///< median of a step
  std::optional<double> samples_per_second = {};  ///< samples of a step / step_seconds; under a policy, of the run
  std::vector<int64_t> peak_memory = {};          ///< bytes of tensors, by device
  std::vector<TrainingStep> steps = {};           ///< the loss curve
  std::vector<TrainingEvaluation> evaluations = {};
  TensorMap weights = {};  ///< trained parameters and buffers by name, on the CPU; empty unless ok
};

/// What a step under a plan is predicted to take.
struct StepPrediction {
  std::string plan = {};    ///< in short
  bool fits = true;         ///< in the memory of each device
  std::string reason = {};  ///< where it does not fit: the device, and the bytes that are missing
  std::optional<double> step_seconds = {};
  std::optional<int64_t> peak_memory = {};  ///< bytes, of the device that needs most
  std::string basis = {};  ///< where the seconds come from: "measured", "extrapolated 4.0 x", "datasheet"
};

/// What a plan is searched for.
enum class SearchGoal { time, memory, cost };

/// How far training under a plan differs from training on one device.
struct Verification {
  /// All differences are within the tolerance; in bf16, or within three times what bf16 itself changes on one device.
  bool ok = false;
  double tolerance = 0;             ///< relative, that of the workload's precision
  double loss_difference = 0;       ///< relative, the largest over the steps
  double parameter_difference = 0;  ///< relative, the largest over parameters and steps
  std::string note = {};            ///< in what the reference differs from plain one-device training; may be empty
};

/// A model, its data and how to train it. Copies share the model and the data. Const calls are thread-safe, but
/// train(), verify() and the functions that find a plan for this machine use all the cores they are given.
///
/// All member functions throw Error for bad input; train() reports a run that fails in its result.
class Workload {
 public:
  /// Reads an experiment file (docs/experiments.md); `overrides` are assignments as of --set: "batch=64".
  static Workload from_file(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
  /// A model and data of your own. `settings`: TOML with the keys of an experiment file other than model and data,
  /// "batch = 64\nlength = \"2 epochs\"\noptimizer = { kind = \"adam\", learning_rate = 0.001 }".
  static Workload of(Model model, TaskData data, const std::string& settings = "");

  const Model& model() const;
  const TaskData& data() const;
  int64_t batch() const;  ///< samples of a step, of all workers together

  /// The plan that a strategy names ("data", "1f1b,recompute=all", "data=2,tensor=2", "local-sgd,every=16 steps"), or
  /// the plan in the file of that name, for `devices` workers of this machine. A planner's plan ("asa", "exact") is
  /// found as find_plan() does, with measurements and, for "exact", training steps.
  Plan plan(const std::string& name, int devices) const;
  /// The best plan for at most `devices` workers of this machine, found by the exact planner and the simulator. Layers
  /// are measured here first, which takes seconds to minutes. The search ends after 60 s with the best plan found. For
  /// SearchGoal::time it then trains for some seconds under each of up to four plans. It returns the simplest of the
  /// plans that are within 3 % of the fastest.
  Plan find_plan(int devices, SearchGoal goal = SearchGoal::time) const;
  /// Likewise, for a described cluster (docs/clusters.md); nothing is measured.
  Plan find_plan(const Cluster& cluster, SearchGoal goal = SearchGoal::time) const;

  /// Predicts a step under `plan` on this machine, from layers measured here.
  StepPrediction simulate(const Plan& plan) const;
  /// Predicts a step under `plan` on the first devices of a described cluster.
  StepPrediction simulate(const Plan& plan, const Cluster& cluster) const;

  /// Trains `steps` steps under `plan` and on one device and compares all parameters. The workload's precision decides
  /// the tolerance: use precision = "fp64" to see errors rather than rounding.
  Verification verify(const Plan& plan, int64_t steps = 3) const;

  /// Trains under `plan` with threads of this process as workers. Does not write any file.
  TrainingResult train(const Plan& plan, const TrainingHooks& hooks = {}) const;

 private:
  struct State;
  explicit Workload(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// The schedule of `plan` drawn with nominal times, at most `columns` wide, as `trireme plan show --program` prints it.
/// The program has passed the checker. Errors (user): the program of the plan cannot run.
std::string draw_plan(const Plan& plan, const Model& model, int columns = 100);

}  // namespace trireme
