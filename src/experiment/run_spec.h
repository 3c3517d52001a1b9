// What a run is given: an experiment, and what is known of the run beyond what the user wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "program/compile_options.h"
#include "trireme/model.h"

namespace trireme {

struct CostSource;

/// What build_model finds out from the data and a model's file.
struct ModelFindings {
  bool tokens = false;                   ///< the data are token ids
  std::vector<std::string> notes = {};   ///< on an imported model, one line each; rows have them as warnings
  std::vector<std::string> frozen = {};  ///< parameters that an imported model does not train
};

/// An experiment with what no file says: the caller sets it before a run, and build_model while it builds the model.
/// Functions that train, compile, predict or verify take a RunSpec; those that only read what the user wrote take an
/// Experiment.
struct RunSpec : Experiment {
  bool processes = false;  ///< workers are processes, with private replicas; else threads of one process
  bool own_data =
      false;  ///< replicas are processes that bring data of their own: a replica's samples are all that are here
  /// Workers live in virtual time (comm/virtual/virtual_time.h), on these machines; null: in real time. Replicas are
  /// private then.
  std::shared_ptr<const CostSource> virtual_machines = {};
  /// What the machines are, and where their seconds come from; empty in real time. Replicas that agree have it without
  /// `virtual_machines`: their machines are those of ReplicaSpec::clock.
  std::string virtual_machines_in_words = {};
  ModelFindings model_findings = {};
};

/// Parameters that are not trained, named as in Experiment::frozen: those of the experiment, then those of an imported
/// model.
std::vector<std::string> frozen_of(const RunSpec& experiment);

/// What the experiment says about the programs that its plans compile to, for training or for evaluation.
CompileOptions compile_options(const RunSpec& experiment, bool training);

/// Model for the experiment's data. Sets experiment.model_findings, which runs, checks and comparisons with the model
/// need. Errors (user): a model that does not do what the data are for, with those that do; a file that cannot be
/// imported (model/import/import.h), or whose output does not fit the data; a target, label smoothing, beam or padding
/// that the data have no use for; less padding for an imported model.
Model build_model(RunSpec& experiment, const TaskData& data);

/// As build_model, for a model that the caller brings. Errors (user): a target or beam that the data have no use for.
void note_model(RunSpec& experiment, const TaskData& data);

}  // namespace trireme
