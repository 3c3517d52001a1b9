// The registry of update policies. A file with a descriptor, and a line in registry.cpp, add one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "trireme/run_facts.h"

namespace trireme {

/// In the order of docs/updates.md, then registered ones.
const std::vector<const PolicyKind*>& update_policies();
std::vector<std::string> update_policy_names();

/// Of a server of clients that names none: the first of the federated ones.
std::string usual_federated_policy();

/// The policy that `update`, an experiment's [update] table, names under `policy`, with the table's other keys as its
/// options (docs/updates.md). Marks the keys that the policy takes as read. Errors (user): unknown names, bad values, a
/// local optimizer that the policy cannot do with.
std::unique_ptr<UpdatePolicy> make_update_policy(const ConfigTable& update, const RunFacts& facts);

// One file each, or one with its variants.
extern const PolicyKind kSynchronous, kLocalSgd, kAsyncAverage, kPartialAverage, kEasgd, kEamsgd, kHogwild, kDownpour,
    kShat, kDiloco, kStreamingDiloco, kFedavg, kFedprox, kFedadam;

}  // namespace trireme
