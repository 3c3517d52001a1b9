// Finds the parameters that stay with a replica in its model and in its state.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/hub.h"
#include "trireme/model.h"

namespace trireme {

/// Returns the names of the model's parameters and buffers for which the words (UpdatePolicy::local_parameters) stand.
/// Errors (user): a word that stands for none. `where`: the key's place, for messages.
std::set<std::string> local_names(const Model& model, const std::vector<std::string>& words, const std::string& where);

/// Errors (user), with `where`: those of local_names; words that leave no parameter to exchange.
void check_local_parameters(const Model& model, const std::vector<std::string>& words, const std::string& where);

/// Returns where they lie in a replica's state (ReplicaView::state) under the training program. Elements that fill a
/// bucket up after a parameter count with it. Frozen parameters are in no state. Errors (user): those of
/// check_local_parameters; all parameters that are trained stay local.
LocalParts local_parts_of(const Program& training, const Model& model, const std::vector<std::string>& words,
                          const std::string& where);

}  // namespace trireme
