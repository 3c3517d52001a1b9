// The input of a run: an experiment, and what is known about the run beyond what the user wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/process_machines.h"
#include "program/compile_options.h"
#include "trireme/model.h"

namespace trireme {

struct CostSource;

/// What build_model finds in the data and in a model's file.
struct ModelFindings {
  bool tokens = false;  ///< true: the data are token ids
  /// Notes on an imported model, one line each; rows list them as warnings.
  std::vector<std::string> notes = {};
  std::vector<std::string> frozen = {};  ///< parameters that an imported model does not train
};

/// An experiment with values that no file states. The caller sets them before a run; build_model sets its part when it
/// builds the model. Functions that train, compile, predict or verify take a RunSpec. Functions that only read what the
/// user wrote take an Experiment.
struct RunSpec : Experiment {
  bool processes = false;  ///< true: workers are processes with private replicas; false: threads of one process
  /// Of this process, if workers are processes: its rank among all of them and among those of its machine.
  int rank = 0, rank_on_machine = 0;
  int gpus = 0;  ///< that all processes can use; 0: unknown, or they compute on cores
  /// Of all processes, for predictions; null: not measured, or workers are threads or compute on GPUs.
  std::shared_ptr<const ProcessMachines> process_machines = {};
  /// Replicas are processes with data of their own: all samples of a process are its replica's.
  bool own_data = false;
  /// Workers run in modelled time (comm/virtual/virtual_time.h) on these machines. Null: in real time. In modelled time
  /// replicas are private.
  std::shared_ptr<const CostSource> virtual_machines = {};
  /// Describes the machines and the origin of their seconds; empty in real time. Replicas with an agreement have it
  /// without `virtual_machines`: their machines are those of ReplicaSpec::clock.
  std::string virtual_machines_in_words = {};
  ModelFindings model_findings = {};
};

/// Returns the experiment of a row whose batch counts the samples of `devices` devices: all of the row, or under an
/// update policy with batch_of = "replica" those of a replica. Where the batch is per device, `batch` becomes the
/// row's, once: an experiment whose devices are known is returned as it is, and so is one with a global batch. Errors
/// (user): more samples than a batch can have; fewer than micro_batches.
RunSpec with_batch_on(RunSpec experiment, int devices);

/// Returns the parameters that are not trained, named as in Experiment::frozen: those of the experiment, then those of
/// an imported model.
std::vector<std::string> frozen_of(const RunSpec& experiment);

/// Returns the experiment's options for compiling its plans, for training or for evaluation.
CompileOptions compile_options(const RunSpec& experiment, bool training);

/// Builds the model for the experiment's data. Sets experiment.model_findings, which runs, checks and comparisons with
/// the model need. Errors (user): a model for another task than that of the data (the message lists those that fit); a
/// file that cannot be imported (model/import/import.h), or whose output does not fit the data; a target, label
/// smoothing, beam or padding that does not apply to the data; less padding for an imported model.
Model build_model(RunSpec& experiment, const TaskData& data);

/// As build_model, for a model that the caller brings. Errors (user): a target or beam that does not apply to the data.
void note_model(RunSpec& experiment, const TaskData& data);

}  // namespace trireme
