#include "update/registry.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "update/async_average.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/hogwild.h"
#include "update/local_sgd.h"
#include "update/partial.h"
#include "update/shat.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<UpdatePolicy> (*read)(const ConfigTable& update, const RunFacts& facts);
};

constexpr Entry kFedavg{"fedavg", read_fedavg};

constexpr std::array kPolicies = {
    Entry{kSynchronous, read_synchronous},
    Entry{"local-sgd", read_local_sgd},
    Entry{"async-average", read_async_average},
    Entry{"partial", read_partial},
    Entry{"easgd", read_easgd},
    Entry{"eamsgd", read_eamsgd},
    Entry{"hogwild", read_hogwild},
    Entry{"downpour", read_downpour},
    Entry{"shat", read_shat},
    Entry{"diloco", read_diloco},
    Entry{"streaming-diloco", read_streaming_diloco},
    kFedavg,
    Entry{"fedprox", read_fedprox},
    Entry{"fedadam", read_fedadam},
};

}  // namespace

std::vector<std::string> update_policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::string usual_federated_policy() { return kFedavg.name; }

std::unique_ptr<UpdatePolicy> make_update_policy(const ConfigTable& update, const RunFacts& facts) {
  const std::string name = update.get_choice("policy", update.require_string("policy"), update_policy_names());
  const auto entry = std::find_if(kPolicies.begin(), kPolicies.end(), [&](const Entry& e) { return name == e.name; });
  check_internal(entry != kPolicies.end(), "get_choice returns one of its choices");
  return entry->read(update, facts);
}

}  // namespace trireme
