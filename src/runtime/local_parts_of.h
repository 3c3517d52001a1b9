// Finds the parameters that stay with a replica in its model and in its state.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/hub.h"
#include "trireme/model.h"

namespace trireme {

/// Returns the model's parameters and buffers that the words (UpdatePolicy::local_parameters) name. Errors (user): a
/// word that names none. `where`: the key's place, for messages.
std::set<std::string> local_names(const Model& model, const std::vector<std::string>& words, const std::string& where);

/// Errors (user), with `where`: those of local_names; words that leave no parameter to exchange.
void check_local_parameters(const Model& model, const std::vector<std::string>& words, const std::string& where);

/// Returns the positions of the local parameters in a replica's state (ReplicaView::state) under the training program.
/// Padding after a parameter in its bucket belongs to that parameter. Frozen parameters are in no state. Errors (user):
/// those of check_local_parameters; all trained parameters are local.
LocalParts local_parts_of(const Program& training, const Model& model, const std::vector<std::string>& words,
                          const std::string& where);

}  // namespace trireme
