// What a server of replicas and its clients must agree on, and the ranks of a run: the experiment, the model and the
// data, compared key by key before a client may join or a rank may begin.
#pragma once

#include <string>

#include "cli/options.h"
#include "experiment/run_spec.h"
#include "trireme/dataset.h"
#include "trireme/model.h"

namespace trireme {

/// The experiment's keys with flags applied, but for those that may differ between machines (paths, threads, the seed,
/// which the server tells); the model's fingerprint and the number of training samples. As JSON. `own_data`: clients
/// train on data of their own; then that, and nothing of the data.
std::string agreement(const ExperimentOptions& options, const Model& model, const TaskData& data, bool own_data);

/// For processes that are the workers of one plan: all keys but where the data lie and what a machine loads them with;
/// the seed, the plan as it was asked for, the versions of this program and of libtorch.
std::string strict_agreement(const ExperimentOptions& options, const std::string& plan, const RunSpec& experiment,
                             const Model& model, const TaskData& data);

/// Who says what, in messages.
struct Sides {
  std::string ours = "at the server", theirs = "at the client";
};
/// The first difference, in words; "": there is none.
std::string first_difference(const std::string& ours, const std::string& theirs, const Sides& sides = {});

}  // namespace trireme
