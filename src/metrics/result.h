// The result of one strategy's run: a row of the comparison. Its JSON form is documented in docs/run-folder.md.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "comm/backend_list.h"
#include "metrics/metrics.h"
#include "plan/blocks.h"
#include "runtime/timeline.h"
#include "update/federated_rounds.h"
#include "update/privacy.h"

namespace trireme {

enum class RunStatus { ok, failed, timed_out, does_not_fit, skipped, interrupted };
const char* name_of(RunStatus status);  ///< "ok", "failed", "timed out", "does not fit", "skipped", "interrupted"
/// The reason of what the user interrupted: RunResult::reason, TrialStep::why_not (forecast/trial_steps.h).
inline constexpr const char* kStoppedByUser = "stopped by the user";

/// Times of the steps after warm-up. Everything that ranks rows by speed uses the median, or follows from it.
struct StepSeconds {
  double median = 0, p10 = 0, p90 = 0;
  /// Under an update policy: samples of a step of all replicas / samples_per_second. Older files have none.
  std::optional<double> mean = {};
};

/// One of several runs of a row.
struct RepeatReport {
  StepSeconds step_seconds;
  double epoch_seconds = 0;
};

struct CurvePoint {
  int64_t step = 0;     ///< number of steps done
  int64_t samples = 0;  ///< samples seen so far
  double seconds = 0;   ///< training time so far, without evaluation
  double loss = 0;      ///< mean over that step's global batch
  double learning_rate = 0;
  /// Norm of the full gradient with which the step updated the weights, before clipping. Where batches overlap it is
  /// that of an earlier batch. nullopt: it was not measured.
  std::optional<double> gradient_norm = {};
};

/// An evaluation of the own model of a replica that keeps local parameters.
struct OwnEvaluation {
  int replica = 0;
  double loss = 0;
  std::vector<Metric> metrics = {};  ///< as EvaluationPoint::metrics
};

struct EvaluationPoint {
  int64_t step = 0;
  int64_t samples = 0;
  double epoch = 0;
  double seconds = 0;                ///< training time so far, without evaluation
  double loss = 0;                   ///< mean over the test set
  std::vector<Metric> metrics = {};  ///< of the task, the main one first; empty if the model's loss reports none
  /// By replica, where replicas keep local parameters: `loss` and `metrics` are then the means over them. Not in
  /// run.json, which has those of the last evaluation: ReplicaReport::own.
  std::vector<OwnEvaluation> own = {};

  const Metric* main() const { return metrics.empty() ? nullptr : &metrics.front(); }
};

struct ToTarget {
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;
};

/// Which target a run has reached, and when.
struct TargetReached {
  double target = 0;  ///< value of the main metric
  ToTarget after;
};

/// A change of the plan during a run.
struct PlanChange {
  int64_t step = 0;      ///< number of steps done before the change
  std::string from, to;  ///< short descriptions of the plans
  std::string reason;
  /// From the end of the old plan on the last worker to the first step of the new plan; part of the run's time.
  double seconds = 0;
};

/// Figures of a run with several replicas under an update policy.
struct ReplicaReport {
  int replicas = 1;
  std::string clock = "real";  ///< or "modelled": times are from a model
  /// Share of the replicas' time spent waiting for others; NaN: processes have not reported it, because they were
  /// ended.
  double idle_share = 0;
  int64_t bytes = 0;  ///< sent by all replicas together
  /// [k]: number of exchanges with weights that were k updates old.
  std::vector<int64_t> staleness = {};
  std::vector<RoundRecord> rounds = {};      ///< rounds of federated learning
  std::optional<PrivacySpent> privacy = {};  ///< that the rounds have spent; nullopt: none was asked for
  std::vector<OwnEvaluation> own = {};       ///< of the last evaluation: EvaluationPoint::own
};

/// Figures of the checkpoints that a run wrote.
struct CheckpointReport {
  int64_t written = 0, failed = 0;
  int64_t newest_step = 0;  ///< step of the newest complete checkpoint; 0: there is none
  int64_t bytes = 0;        ///< size of that checkpoint
  /// Total time that the first worker was blocked, until its state had been copied.
  double stall_seconds = 0;
  double write_seconds = 0;  ///< time of the writing thread, in parallel with training
};

/// Bytes that are in use on a described device: by its tensors, their allocator, the driver and libraries. low: without
/// overhead of the allocator; high: with twice its usual overhead.
struct MemoryRange {
  int64_t low = 0, expected = 0, high = 0;
};

/// The simulation's prediction for a row.
struct SimulatedStep {
  double step_seconds = 0;
  std::optional<int64_t> peak_memory;  ///< bytes of tensors, of the device that needs most
  /// "measured", "extrapolated 4.0 x", "datasheet": the weakest source among its inputs.
  std::string basis;
  /// The speed of the cores at which the prediction holds, as RunResult::core_seconds.
  std::optional<double> core_seconds = {};
  std::optional<double> memory_speed = {};        ///< of the undisturbed memory, as RunResult::memory_speed
  std::optional<MemoryRange> device_memory = {};  ///< of the device that needs the greatest share of its own
};

/// One row. Quantities that were not measured (the run failed before, or never reached them) are nullopt, never zero.
struct RunResult {
  std::string strategy;  ///< "single", "data", "tensor", "pipeline", "hybrid"
  std::string name;      ///< name of the plan; distinguishes variants of a strategy: "hybrid:tensor"
  /// Short description: "data 2 x tensor 2"; "data 2 -> pipeline 2" if the run changed the plan.
  std::string plan;
  std::vector<BlockStrategy> blocks;  ///< the strategy of each block, under the first plan
  RunStatus status = RunStatus::ok;
  std::string reason;                 ///< why the status is not ok; one line
  std::string ended_early;            ///< why an ok run ended before its length; empty: it did not
  std::vector<std::string> warnings;  ///< "4 workers share 2 cores: times mean nothing, curves do"
  int devices = 1;  ///< of an elastic run: those of its last group, to which its times and its memory belong
  /// Of an elastic run whose groups differ in size: the devices of each group, in order. Otherwise empty.
  std::vector<int> group_devices = {};
  std::optional<int64_t> batch;              ///< the global batch of the row; set where rows have batches of their own
  std::string backend = kLocalBackend.name;  ///< of the workers (trireme/backend.h)
  bool oversubscribed = false;               ///< more workers than cores: the row's times mean nothing
  /// Of a row that was run several times: over the steps of all runs.
  std::optional<StepSeconds> step_seconds;
  std::vector<double> measured_steps;  ///< seconds of the steps from which step_seconds follow; not in run.json
  std::vector<RepeatReport> repeats;   ///< the runs of a row that was run several times, in order; else empty
  /// The speed of the cores while the row ran: seconds of a piece of work (base/devices/core_speed.h), the median over
  /// steps of the mean over workers, as step_seconds has a median. nullopt on GPUs, in modelled time and under update
  /// policies.
  std::optional<double> core_seconds;
  /// Bytes per second of the machine's memory (base/devices/memory_speed.h): the mean of a measurement before the row
  /// and one after it. nullopt where core_seconds is, and for processes.
  std::optional<double> memory_speed;
  std::optional<double> epoch_seconds;  ///< samples of an epoch / samples_per_second
  /// Samples of a step / its median time. Under an update policy: all samples / the time of the whole run, because
  /// replicas step on their own and exchange between steps; in real time without the first steps (warmup_steps()).
  std::optional<double> samples_per_second;
  /// Throughput per device / that of the row which scaling_base() (train/compare.h) finds: of "single"; set by compare.
  std::optional<double> scaling_efficiency;
  std::vector<double> busy_share;       ///< per device: share of step time spent computing
  std::optional<double> loading_share;  ///< of step time: loading samples or waiting for them, mean over devices
  std::optional<double> exposed_communication;  ///< share of step time, mean over devices
  std::optional<double> hidden_communication;
  std::optional<int64_t> bytes_per_step;  ///< sent, mean per device
  std::vector<MemoryUse> memory;          ///< per device
  std::optional<SimulatedStep> predicted;
  std::optional<double> price_per_epoch;  ///< in ExperimentResult::currency
  std::optional<double> price_to_target;
  std::optional<EvaluationPoint> test;                   ///< the last evaluation; with weights_of_step that of the step
  std::optional<EvaluationPoint> test_at_equal_samples;  ///< at the samples that every ok row reached; set by compare
  /// The last evaluation within the time of the shortest ok row; set by compare.
  std::optional<EvaluationPoint> test_at_equal_time;
  /// Of a run that restores its best weights: the step after which it had them. nullopt: the weights are those of the
  /// end.
  std::optional<int64_t> weights_of_step;
  /// Of the trained weights, computed from whole outputs: AUC, BLEU (train/final_metrics.h).
  std::vector<Metric> final_metrics;
  std::optional<double> target;  ///< value of the main metric
  std::optional<ToTarget> to_target;
  std::optional<double> noise_scale;  ///< samples: the gradient noise scale of the last steps (cost/noise_scale.h)
  std::vector<CurvePoint> curve;
  std::vector<EvaluationPoint> evaluations;
  std::optional<ReplicaReport> replicas;        ///< for rows under an update policy
  std::vector<PlanChange> changes;              ///< changes of the plan during the run, in order
  std::optional<CheckpointReport> checkpoints;  ///< for runs that write checkpoints
  /// One step of the last plan, after warm-up; in trace.json, not in run.json.
  std::optional<Timeline> timeline;
  /// The plan's schedule with nominal times (forecast/drawing.h); null if there is one stage and one micro-batch.
  std::shared_ptr<const nlohmann::json> schedule;
};

/// Returns the measured seconds of a step with which the row's prediction is compared: the median, or under an update
/// policy the mean, because only some of its steps exchange or wait. nullopt: no steps were measured.
std::optional<double> step_beside_prediction(const RunResult& row);

/// Returns the speed of the cores while the row ran, compared with that of its prediction: 0.9 if they were slower.
/// nullopt: not known.
std::optional<double> core_speed_of(const RunResult& row);

/// Returns the speed of the memory while the row ran, divided by that of the undisturbed memory in the profile: 0.8 if
/// it was slower. nullopt: not known.
std::optional<double> memory_speed_of(const RunResult& row);

/// Returns the predicted seconds of a step, converted to the speed that the cores had while the row ran; not converted
/// where that speed is not known. The row must have a prediction.
double prediction_at_core_speed(const RunResult& row);

/// A whole experiment: `compare` has several rows, `train` one.
struct ExperimentResult {
  std::string experiment;  ///< name from the file
  std::string model;
  std::string data_source;
  bool generated_data = false;
  std::string precision;
  int64_t batch = 0;  ///< the global batch of all rows; 0: not known, or each row has its own
  std::optional<int64_t> batch_per_device = {};  ///< as the experiment says; nullopt: it names a global batch
  uint64_t seed = 0;
  std::string machine;  ///< "2 cores, AVX-512, AMX, 23.4 GiB; libtorch 1.13.1"
  std::string started;  ///< ISO 8601, UTC
  /// Lines: the source of the model's initial values; empty if they were drawn.
  std::vector<std::string> initial_values;
  /// What the rows were simulated on, and from what: "dgx1-v100, from its datasheet". Empty: the rows were run.
  std::string simulated;
  /// Price of the machine that ran all rows; not set if each row has its own devices.
  std::optional<double> price_per_hour;
  std::string currency;  ///< currency of prices; empty: there are none
  std::string prices;    ///< source and date of the prices
  std::vector<RunResult> rows;
};

}  // namespace trireme
