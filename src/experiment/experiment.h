// An experiment file: what to train, on what, how long, and which strategies to compare.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/emulated_links.h"
#include "data/open.h"
#include "experiment/checkpoint_spec.h"
#include "experiment/emulation.h"
#include "experiment/initial_weights.h"
#include "experiment/learning_rate.h"
#include "experiment/replica_spec.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"
#include "trireme/cluster.h"
#include "trireme/model.h"
#include "trireme/units.h"
#include "zoo/zoo.h"

namespace trireme {

class RepaddedSet;

/// What the user wrote: an experiment file with the flags that win over it (read_experiment). It says nothing of a
/// single run: see RunSpec (experiment/run_spec.h).
struct Experiment {
  std::string name;
  std::filesystem::path file;
  uint64_t seed = 1;

  // how long, and to what end
  int64_t batch = 128;  ///< global batch
  Length length{1, Length::Unit::epochs};
  Length evaluate_every{1, Length::Unit::epochs};
  std::optional<double> target;  ///< of the task's main metric (metrics/metrics.h): an accuracy, a perplexity, an RMSE
  double time_limit = 0;         ///< seconds per strategy; 0: none

  // [model]
  std::string model_name;            ///< of the zoo, or the name of model_file without its folder
  std::filesystem::path model_file;  ///< TorchScript to import; empty: a model of the zoo
  std::string model_where;           ///< where the file names it, for messages; may be empty
  std::map<std::string, double> model_options;
  std::optional<InitialWeights> initial_weights;
  std::vector<std::string>
      frozen;                  ///< parameters that are not trained: "conv1.weight", or "layer1.*" for all that begin so
  double label_smoothing = 0;  ///< see ModelSpec
  Precision precision = Precision::fp32;
  BatchNormScope batch_norm = BatchNormScope::local;

  // [data]
  DataSpec data;
  std::optional<int> loading_threads;  ///< data.workers; not set: what the data set suggests, see loading_threads_of
  /// 0: every sentence is padded to data.sequence. Else batches are of sentences of similar length, padded to a
  /// multiple of this.
  int64_t pad_to_multiple_of = 0;
  int64_t beam = 1;             ///< sentences kept while the test set is translated for BLEU; 1: greedy
  double length_penalty = 0.6;  ///< see BeamOptions (metrics/beam_search.h)

  // [optimizer]
  OptimizerConfig optimizer;
  LearningRateSchedule schedule;
  double clip_norm = 0;      ///< 0: no clipping
  bool noise_scale = false;  ///< estimates the gradient noise scale while training

  // plans
  std::vector<std::string> strategies;  ///< as written: "hybrid" not yet expanded
  int micro_batches = 0;                ///< 0: chosen by the plan
  bool private_replicas = false;  ///< replicas = "private": a copy of the weights per worker, as separate devices have
  ReplicaSpec replicas;           ///< [update]: of the rows that train under an update policy
  bool adapt = false;             ///< `train` measures itself against predictions and changes its plan

  // devices
  std::vector<int> devices;           ///< numbers of workers to compare on
  int64_t device_memory = 0;          ///< bytes; 0: no limit
  int threads = 1;                    ///< intra-op threads of every worker, where device_threads is empty
  std::vector<int> device_threads;    ///< intra-op threads by worker
  std::vector<double> device_speeds;  ///< relative, by worker; empty: in proportion to the threads
  double price_per_hour = 0;          ///< of this machine, in `currency`; 0: not known
  std::string currency;
  std::string price_note;  ///< where the price is from, and of when; may be empty

  // emulated devices and links
  std::optional<LinkSchedule>
      links;  ///< [cluster.link]: workers communicate as over links of this speed; replicas are private then
  std::vector<WorkerChange> worker_changes;  ///< [[cluster.worker.change]]: workers that slow down during a run
  std::vector<MemoryChange> memory_changes;  ///< [[cluster.memory.change]]: of device_memory during a run

  // what a run leaves, and how it goes on
  CheckpointSpec checkpoint;         ///< [checkpoint]
  bool elastic = false;              ///< a launched run goes on without processes that it lost (cli/elastic_launch.h)
  std::optional<bool> save_weights;  ///< not set: unless they are huge (kLargestSavedUnasked)
};

/// The first `devices` of the experiment's devices, with memory and speed. Errors (user): device_threads or
/// device_speeds lists fewer.
Cluster cluster_of(const Experiment& experiment, int devices);

/// Intra-op threads of each of the first `devices` workers. Errors (user): device_threads lists fewer.
std::vector<int> threads_of(const Experiment& experiment, int devices);

/// As the experiment writes it: "local", "global", "deferred".
const char* name_of(BatchNormScope scope);

/// What the zoo or the import of a file is told of the model, for samples of `set`.
ModelSpec model_spec(const Experiment& experiment, const Dataset& set);

/// The model of build_model (experiment/run_spec.h) for samples of the data with less padding: same losses, same
/// parameters. Thread-safe.
Model build_model(const Experiment& experiment, const RepaddedSet& set);

/// The model with the values of the experiment's file of weights where it names one, else as it is; what the file
/// leaves open keeps the model's own initial values. Errors (user): those of reading the file, and of one that does not
/// fit (match_weights).
Model with_initial_weights(const Experiment& experiment, const Model& model);

/// What the zoo makes the model from; nothing where a file holds it.
std::optional<ModelSpec> zoo_spec(const Experiment& experiment, const TaskData& data);

/// Threads that load samples ahead of training: data.workers, else 1 where the set decodes its samples, 0 where they
/// lie in memory.
int loading_threads_of(const Experiment& experiment, const Dataset& set);

/// Learning rate of 0-based `step` of `total`.
double learning_rate_at(const Experiment& experiment, int64_t step, int64_t total, int64_t steps_per_epoch);

}  // namespace trireme
