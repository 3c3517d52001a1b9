// What a server of replicas and its clients must agree on: the experiment, the model and the data, compared key by key before a client may join.
#pragma once

#include <string>

#include "cli/options.h"
#include "data/dataset.h"
#include "model/model.h"

namespace trireme {

/// The experiment's keys with flags applied, but for those that may differ between machines (paths, threads, the seed, which the server
/// tells); the model's fingerprint and the number of training samples. As JSON. `own_data`: clients train on data of their own; then that, and
/// nothing of the data.
std::string agreement(const ExperimentOptions& options, const Model& model, const TaskData& data, bool own_data);

/// The first difference, in words; "": there is none.
std::string first_difference(const std::string& server, const std::string& client);

}  // namespace trireme
