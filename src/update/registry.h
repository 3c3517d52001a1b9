// The registry of update policies. A new policy is a file with a descriptor and one line in registry.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/config.h"
#include "trireme/policy.h"

namespace trireme {

/// In the order of docs/updates.md, then registered ones.
const std::vector<const PolicyKind*>& update_policies();
std::vector<std::string> update_policy_names();

/// The default policy of a server of clients: the first of the federated ones.
std::string usual_federated_policy();

/// Returns the policy that an experiment's [update] table names under `policy`; the table's other keys are its options
/// (docs/updates.md). Marks the keys that the policy uses as read. Errors (user): unknown names, bad values, a local
/// optimizer that the policy does not support.
std::unique_ptr<UpdatePolicy> make_update_policy(const ConfigTable& update, const RunFacts& facts);

// Each is defined in its own file, or in one with its variants.
extern const PolicyKind kSynchronous, kLocalSgd, kGossip, kAsyncAverage, kPartialAverage, kEasgd, kEamsgd, kHogwild,
    kDownpour, kShat, kDiloco, kStreamingDiloco, kFedavg, kFedprox, kFednova, kScaffold, kFedbuff, kFedadam;

}  // namespace trireme
