// An experiment file: what to train, on which data, for how long, and which strategies to compare.
#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/local/emulated_links.h"
#include "data/open.h"
#include "experiment/checkpoint_spec.h"
#include "experiment/emulation.h"
#include "experiment/initial_weights.h"
#include "experiment/learning_rate.h"
#include "experiment/replica_spec.h"
#include "metrics/early_stopping.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "trireme/cluster.h"
#include "trireme/config.h"
#include "trireme/model.h"
#include "zoo/zoo.h"

namespace trireme {

class RepaddedSet;

/// One of an experiment's [[phase]] tables.
struct PhaseSpec {
  std::vector<std::string> changes;  ///< of the experiment's keys, as --set takes them: "data.image_size=32"
  std::string plan;                  ///< empty: that of the run
};

/// What the user wrote: an experiment file, with the flags that override it (read_experiment). It does not describe a
/// single run; see RunSpec (experiment/run_spec.h).
struct Experiment {
  std::string name;
  std::filesystem::path file;
  uint64_t seed = 1;
  std::vector<PhaseSpec> phases;  ///< [[phase]]: training in phases, which are runs one after another
  int phase = 0;                  ///< the phase, from 1, whose changes the values below contain; 0: none

  // length and target
  int64_t batch = 128;  ///< global batch; where it is per device, of one device until with_batch_on()
  /// batch = "32 per device": the global batch of a row is this times its devices. 0: `batch` is as written.
  int64_t batch_per_device = 0;
  int batch_devices = 0;  ///< the devices for which with_batch_on() set `batch`; 0: they are not known yet
  Length length{1, Length::Unit::epochs};
  std::optional<int64_t> steps_flag;  ///< value of --steps, which replaces `length`
  Length evaluate_every{1, Length::Unit::epochs};
  /// Value of the task's main metric (metrics/metrics.h): an accuracy, a perplexity, an RMSE.
  std::optional<double> target;
  EarlyStoppingSpec early_stopping;  ///< [early_stopping], and stop_at_target
  double time_limit = 0;             ///< seconds per strategy; 0: none

  // [model]
  std::string model_name;            ///< of the zoo, or the name of model_file without its folder
  std::filesystem::path model_file;  ///< TorchScript to import; empty: a model of the zoo
  std::string model_where;           ///< its position in the experiment file, for messages; may be empty
  std::map<std::string, double> model_options;
  std::optional<InitialWeights> initial_weights;
  /// Parameters that are not trained: "conv1.weight", or "layer1.*" for all with this prefix.
  std::vector<std::string> frozen;
  double label_smoothing = 0;  ///< see ModelSpec
  Precision precision = Precision::fp32;
  BatchNormScope batch_norm = BatchNormScope::local;

  // [data]
  DataSpec data;
  /// data.workers. Not set: the data set's default, see loading_threads_of.
  std::optional<int> loading_threads;
  /// 0: every sentence is padded to data.sequence. Otherwise batches hold sentences of similar length, padded to a
  /// multiple of this number.
  int64_t pad_to_multiple_of = 0;
  int64_t beam = 1;             ///< beam width when the test set is translated for BLEU; 1: greedy
  double length_penalty = 0.6;  ///< see BeamOptions (metrics/beam_search.h)

  // [optimizer]
  OptimizerConfig optimizer;
  LearningRateSchedule schedule;
  double clip_norm = 0;      ///< 0: no clipping
  bool noise_scale = false;  ///< estimates the gradient noise scale while training
  /// gradient_norm = true: the norm of each step's gradient is measured even if nothing else needs it.
  bool gradient_norm = false;

  // plans
  std::vector<std::string> strategies;  ///< as written: "hybrid" not yet expanded
  int micro_batches = 0;                ///< 0: chosen by the plan
  /// replicas = "private": each worker has a copy of the weights, as separate devices have.
  bool private_replicas = false;
  ReplicaSpec replicas;  ///< [update]: for rows that train under an update policy
  bool adapt = false;    ///< `train` compares its times with predictions and changes its plan

  // devices
  c10::DeviceType device = c10::DeviceType::CPU;  ///< device = "cuda": on GPUs (experiment/run_device.h)
  bool step_graph = true;                         ///< on GPUs, steps are recorded once and replayed where possible
  bool copy_ahead = false;                        ///< on GPUs, samples are copied while the batch before is used
  std::vector<int> devices;                       ///< numbers of workers for a comparison
  int64_t device_memory = 0;                      ///< bytes; 0: no limit
  int threads = 1;                                ///< intra-op threads of every worker if device_threads is empty
  std::vector<int> device_threads;                ///< intra-op threads by worker
  std::vector<double> device_speeds;              ///< relative, by worker; empty: in proportion to the threads
  double price_per_hour = 0;                      ///< of this machine, in `currency`; 0: not known
  std::string currency;
  std::string price_note;  ///< origin and date of the price; may be empty

  // emulated devices and links
  /// [cluster.link]: workers communicate as if over links of this speed. Replicas are then private.
  std::optional<LinkSchedule> links;
  std::vector<WorkerChange> worker_changes;  ///< [[cluster.worker.change]]: workers that slow down during a run
  std::vector<MemoryChange> memory_changes;  ///< [[cluster.memory.change]]: of device_memory during a run

  // a run's output, and how it recovers
  CheckpointSpec checkpoint;  ///< [checkpoint]
  /// A launched run continues without the processes that it lost (cli/elastic_launch.h).
  bool elastic = false;
  /// Not set: weights are saved if they have at most kLargestSavedUnasked bytes (train/trained_weights.h).
  std::optional<bool> save_weights;

  /// The keys as they were read, for messages; not set: no file was read.
  std::optional<ConfigTable> keys = {};
  /// Returns where a key was given, "e.toml:3: adapt" or "--set adapt=true"; "e.toml: adapt" if it was not given.
  std::string where(std::string_view key) const;
};

inline constexpr int64_t kMostSamples = int64_t{1} << 30;  ///< of a batch

/// Returns true if the batch is per device and the devices are not known yet.
inline bool awaits_devices(const Experiment& experiment) {
  return experiment.batch_per_device > 0 && experiment.batch_devices == 0;
}

/// Returns "128 samples, 32 on each of 4 devices", or how a resumed run's batch differs from that; "" if the
/// batch is not per device.
std::string batch_in_words(const Experiment& experiment);

/// Returns the experiment's first `devices` devices, with memory and speed. Errors (user): device_threads or
/// device_speeds lists fewer.
Cluster cluster_of(const Experiment& experiment, int devices);

/// Returns the intra-op threads of each of the first `devices` workers. Errors (user): device_threads lists fewer.
std::vector<int> threads_of(const Experiment& experiment, int devices);

/// Returns the name that experiments use: "local", "global", "deferred".
const char* name_of(BatchNormScope scope);

/// Returns what the zoo or the import of a file needs to know about the model, for samples of `set`.
ModelSpec model_spec(const Experiment& experiment, const Dataset& set);

/// As build_model of experiment/run_spec.h, for samples of the data with less padding: same losses, same parameters.
/// Thread-safe.
Model build_model(const Experiment& experiment, const RepaddedSet& set);

/// Returns the model with the values of the experiment's weights file; unchanged if the experiment names none. Tensors
/// that the file does not set keep the model's own initial values. Errors (user): those of reading the file; a file
/// that does not fit (match_weights).
Model with_initial_weights(const Experiment& experiment, const Model& model);

/// Returns what the zoo builds the model from; nullopt if the model is from a file.
std::optional<ModelSpec> zoo_spec(const Experiment& experiment, const TaskData& data);

/// Returns the number of threads that load samples ahead of training: data.workers; by default 1 if the set decodes its
/// samples, 0 if they are in memory.
int loading_threads_of(const Experiment& experiment, const Dataset& set);

/// Returns the learning rate of 0-based `step` of `total`.
double learning_rate_at(const Experiment& experiment, int64_t step, int64_t total, int64_t steps_per_epoch);

}  // namespace trireme
