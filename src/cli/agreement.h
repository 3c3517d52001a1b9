// What a server of replicas and its clients must agree on: the experiment, the model and the data, compared key by key before a client may join.
#pragma once

#include <string>

#include "cli/options.h"
#include "data/dataset.h"
#include "model/model.h"

namespace trireme {

/// The experiment's keys with flags applied, but for those that may differ between machines (paths, threads, the seed, which the server
/// tells); the model's fingerprint and, unless a client trains on data of its own, the number of training samples. As JSON.
std::string agreement(const ExperimentOptions& options, const Model& model, const TaskData& data, bool own_data);

/// The first difference, in words; "": there is none. What `theirs` does not speak of is not compared if it is about the data.
std::string first_difference(const std::string& server, const std::string& client);

}  // namespace trireme
