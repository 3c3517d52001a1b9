// What one strategy's run gave: the row of the comparison. The JSON form is documented in docs/run-folder.md.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "comm/backends.h"
#include "metrics/metrics.h"
#include "plan/blocks.h"
#include "runtime/timeline.h"
#include "update/federated_rounds.h"

namespace trireme {

enum class RunStatus { ok, failed, timed_out, does_not_fit, skipped, interrupted };
const char* name_of(RunStatus status);  ///< "ok", "failed", "timed out", "does not fit", "skipped", "interrupted"

struct StepSeconds {
  double median = 0, p10 = 0, p90 = 0;
};

struct CurvePoint {
  int64_t step = 0;     ///< steps done, 1-based
  int64_t samples = 0;  ///< samples seen so far
  double seconds = 0;   ///< training time so far, evaluation excluded
  double loss = 0;      ///< mean over that step's global batch
};

struct EvaluationPoint {
  int64_t step = 0;
  int64_t samples = 0;
  double epoch = 0;
  double seconds = 0;                ///< training time so far, evaluation excluded
  double loss = 0;                   ///< mean over the test set
  std::vector<Metric> metrics = {};  ///< of the task, the main one first; none where the model's loss reports none

  const Metric* main() const { return metrics.empty() ? nullptr : &metrics.front(); }
};

struct ToTarget {
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;
};

/// A run that went on under another plan.
struct PlanChange {
  int64_t step = 0;      ///< done before it
  std::string from, to;  ///< plans in short
  std::string reason;
  double seconds = 0;  ///< from the last worker's end of the old plan to the first step: part of the run's time
};

/// What several replicas under an update policy took.
struct ReplicaReport {
  int replicas = 1;
  std::string clock = "real";  ///< or "modelled": times are a model's
  double idle_share = 0;       ///< of the replicas' time: waiting for others
  int64_t bytes = 0;           ///< sent, by all together
  std::vector<int64_t> staleness =
      {};  ///< [k]: exchanges with weights that k updates of others had passed since they were read
  std::vector<RoundRecord> rounds = {};  ///< of federated learning
};

/// What a run wrote of checkpoints.
struct CheckpointReport {
  int64_t written = 0, failed = 0;
  int64_t newest_step = 0;   ///< of the newest that is whole; 0: there is none
  int64_t bytes = 0;         ///< of that one
  double stall_seconds = 0;  ///< that the first worker stood still for, all in all: until its state had been copied
  double write_seconds = 0;  ///< of the thread that wrote them, beside training
};

/// What a simulation said of a row.
struct SimulatedStep {
  double step_seconds = 0;
  std::optional<int64_t> peak_memory;  ///< bytes, of the device that needs most
  std::string basis;  ///< "measured", "extrapolated 4.0 x", "datasheet": the weakest of what it is made of
};

/// One row. Quantities that were not measured (failed before, never reached) are nullopt, never zero.
struct RunResult {
  std::string strategy;  ///< "single", "data", "tensor", "pipeline", "hybrid"
  std::string name;      ///< of the plan, tells variants of a strategy apart: "hybrid:tensor"
  std::string plan;      ///< in short: "data 2 x tensor 2"; "data 2 -> pipeline 2" where the run changed it
  std::vector<BlockStrategy> blocks;  ///< what each block got, of the first plan
  RunStatus status = RunStatus::ok;
  std::string reason;                 ///< why not ok; one line
  std::vector<std::string> warnings;  ///< "4 workers share 2 cores: times mean nothing, curves do"
  int devices = 1;
  std::string backend = kLocalBackend.name;  ///< of the workers (trireme/backend.h)
  bool oversubscribed = false;               ///< more workers than cores: the row's times mean nothing
  std::optional<StepSeconds> step_seconds;
  std::optional<double> epoch_seconds;
  std::optional<double> samples_per_second;
  std::optional<double> scaling_efficiency;  ///< throughput / (devices x single's throughput); compare fills it in
  std::vector<double> busy_share;            ///< per device: share of step time spent computing
  std::optional<double> loading_share;       ///< of step time: loading samples or waiting for them, mean over devices
  std::optional<double> exposed_communication;  ///< share of step time, mean over devices
  std::optional<double> hidden_communication;
  std::optional<int64_t> bytes_per_step;  ///< sent, mean per device
  std::vector<MemoryUse> memory;          ///< per device
  std::optional<SimulatedStep> predicted;
  std::optional<double> price_per_epoch;  ///< in ExperimentResult::currency
  std::optional<double> price_to_target;
  std::optional<EvaluationPoint> test;                   ///< the last evaluation
  std::optional<EvaluationPoint> test_at_equal_samples;  ///< at the samples every ok row reached; compare fills it in
  std::optional<EvaluationPoint>
      test_at_equal_time;             ///< last evaluation within the shortest ok row's time; compare fills it in
  std::vector<Metric> final_metrics;  ///< of the trained weights, from whole outputs: AUC, BLEU (train/final_metrics.h)
  std::optional<double> target;       ///< of the main metric
  std::optional<ToTarget> to_target;
  std::optional<double> noise_scale;  ///< samples: the gradient noise scale of the last steps (cost/noise_scale.h)
  std::vector<CurvePoint> curve;
  std::vector<EvaluationPoint> evaluations;
  std::optional<ReplicaReport> replicas;        ///< of rows under an update policy
  std::vector<PlanChange> changes;              ///< of the plan during the run, in order
  std::optional<CheckpointReport> checkpoints;  ///< of runs that write any
  std::optional<Timeline> timeline;  ///< one step, after warm-up, of the last plan; in trace.json, not in run.json
  /// The plan's schedule with nominal times (forecast/drawing.h); null where there is one stage and one micro-batch.
  std::shared_ptr<const nlohmann::json> schedule;
};

/// A whole experiment: `compare` has many rows, `train` one.
struct ExperimentResult {
  std::string experiment;  ///< name from the file
  std::string model;
  std::string data_source;
  bool generated_data = false;
  std::string precision;
  int64_t batch = 0;
  uint64_t seed = 0;
  std::string machine;  ///< "2 cores, AVX-512, AMX, 23.4 GiB; libtorch 1.13.1"
  std::string started;  ///< ISO 8601, UTC
  std::vector<std::string>
      initial_values;  ///< lines: where the model's initial values are from; none where they were drawn
  std::string
      simulated;  ///< on what the rows were simulated and from what: "dgx1-v100, from its datasheet"; empty: they ran
  std::optional<double>
      price_per_hour;    ///< of the machine that ran all rows; not set where each row has devices of its own
  std::string currency;  ///< of prices; empty: there are none
  std::string prices;    ///< where they are from, and of when
  std::vector<RunResult> rows;
};

}  // namespace trireme
