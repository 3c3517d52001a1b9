// Update policies by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "update/policy.h"
#include "update/run_facts.h"

namespace trireme {

/// All that make_update_policy knows, in the order of docs/updates.md.
std::vector<std::string> update_policy_names();

/// Of a server of clients that names none: the first of the federated ones.
std::string usual_federated_policy();

/// The policy that `update`, an experiment's [update] table, names under `policy`, with the table's other keys as its options
/// (docs/updates.md). Marks the keys that the policy takes as read. Errors (user): unknown names, bad values, a local optimizer that the
/// policy cannot do with.
std::unique_ptr<UpdatePolicy> make_update_policy(const ConfigTable& update, const RunFacts& facts);

}  // namespace trireme
