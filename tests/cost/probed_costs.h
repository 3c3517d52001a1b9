// Bytes of layers' calls, measured by the probe.
#pragma once

#include <c10/core/InferenceMode.h>

#include <map>
#include <string>
#include <tuple>

#include "base/memory.h"
#include "cost/layer_costs.h"
#include "profile/layer_sites.h"
#include "profile/probe_call.h"

namespace trireme::test_support {

/// For one thread. No worker may use device kDevice.
class ProbedMemory final : public LayerCosts {
 public:
  ProbedMemory(const Model& model, const SiteOptions& options) : sites_(model, options) { install_memory_accounting(); }

  LayerCost seconds(NodeId, const ShardingOption&, int, int64_t, int) const override { return {}; }
  double update_seconds(int64_t, int, int) const override { return 0; }
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override {
    const auto [it, fresh] = known_.try_emplace({sites_.key(node, option, tensor), samples});
    if (fresh) {
      const c10::InferenceMode inference;
      const DeviceScope scope(kDevice);
      const ProbeSetting setting{&sites_.site(node), option, tensor, samples, sites_.options()};
      ProbeCall call(setting);
      it->second = measure_memory(setting, call, kDevice);
    }
    return it->second;
  }

 private:
  static constexpr int kDevice = kMaxDevices - 1;
  const LayerSites sites_;
  mutable std::map<std::pair<std::string, int64_t>, LayerMemory> known_;
};

}  // namespace trireme::test_support
