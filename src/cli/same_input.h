// Checks that a server of replicas and its clients, or the ranks of a run, train the same: the experiment, the model
// and the data are compared key by key before a client may join or a rank may begin.
#pragma once

#include <string>

#include "cli/options.h"
#include "experiment/run_spec.h"
#include "trireme/dataset.h"
#include "trireme/model.h"

namespace trireme {

/// Returns the input that a server and its clients must have in common, as JSON: the experiment's keys after the flags
/// were applied, except keys that may differ between machines (paths, threads, the seed, which the server sends); the
/// model's fingerprint; the number of training samples. `own_data`: clients train on data of their own; the result then
/// contains this fact and nothing about the data.
std::string compared_input(const ExperimentOptions& options, const Model& model, const TaskData& data, bool own_data);

/// The same for processes that are the workers of one plan: all keys except the location of the data and the machine's
/// loading settings; the seed, the requested plan, and the versions of this program and of libtorch.
std::string compared_input_of_rank(const ExperimentOptions& options, const std::string& plan, const RunSpec& experiment,
                                   const Model& model, const TaskData& data);

/// Names of the two sides in messages.
struct Sides {
  std::string ours = "at the server", theirs = "at the client";
};
/// Returns a description of the first difference; "" if there is none.
std::string first_difference(const std::string& ours, const std::string& theirs, const Sides& sides = {});

}  // namespace trireme
