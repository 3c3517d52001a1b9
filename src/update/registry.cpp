#include "update/registry.h"

#include <algorithm>

#include "base/additions.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Additions<const PolicyKind*>& additions() {
  static Additions<const PolicyKind*> policies("update policy");
  return policies;
}

}  // namespace

const std::vector<const PolicyKind*>& update_policies() {
  static const std::vector<const PolicyKind*> policies = [] {
    std::vector<const PolicyKind*> all{&kSynchronous, &kLocalSgd,        &kGossip,  &kAsyncAverage, &kPartialAverage,
                                       &kEasgd,       &kEamsgd,          &kHogwild, &kDownpour,     &kShat,
                                       &kDiloco,      &kStreamingDiloco, &kFedavg,  &kFedprox,      &kFednova,
                                       &kScaffold,    &kFedbuff,         &kFedadam};
    additions().take(all);
    return all;
  }();
  return policies;
}

bool register_update_policy(const PolicyKind& policy) { return additions().add(&policy); }

std::vector<std::string> update_policy_names() {
  std::vector<std::string> names;
  for (const PolicyKind* policy : update_policies()) names.emplace_back(policy->name);
  return names;
}

std::string usual_federated_policy() { return kFedavg.name; }

std::unique_ptr<UpdatePolicy> make_update_policy(const ConfigTable& update, const RunFacts& facts) {
  const std::string name = update.get_choice("policy", update.require_string("policy"), update_policy_names());
  const auto policy = std::find_if(update_policies().begin(), update_policies().end(),
                                   [&](const PolicyKind* p) { return name == p->name; });
  check_internal(policy != update_policies().end(), "get_choice returns one of its choices");
  return (*policy)->read(update, facts);
}

}  // namespace trireme
