// What a profile says of a layer's call: measured where it was, between two measured sizes on the line through them,
// beyond them on the line through the last two.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "cost/layer_costs.h"
#include "profile/layer_sites.h"
#include "profile/measure_again.h"
#include "profile/profile.h"
#include "runtime/optimizer.h"

namespace trireme {

struct ProfiledCostsOptions {
  SiteOptions sites = {};
  OptimizerConfig optimizer = {};
  bool measures_missing = false;  ///< measures layers and updates that the profile does not have, and sizes beyond
                                  ///< those that it has; else the former are user errors, the latter extrapolated
  double factor = 1;              ///< by which seconds are longer than measured (Profile::refits)
  int threads = 1;                ///< of a worker's operators, when measuring
  std::string where = "profile";  ///< names the profile in errors
};

class ProfiledCosts final : public LayerCosts {
 public:
  /// The model must outlive this. The profile should be of this machine (check_same_machine).
  ProfiledCosts(const Model& model, Profile profile, ProfiledCostsOptions options = {});

  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override;
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override;
  double update_seconds(int64_t elements, int contributors, int kind = -1) const override;

  /// Measures once more what has been measured since the last call (profile/measure_again.h). Whether there was any;
  /// answers may differ from here on then. Not while another thread asks.
  bool measure_again(double seconds) const;
  /// With what has been measured since.
  Profile profile() const;

 private:
  using Sizes = std::map<int64_t, LayerMeasurement>;
  using Question = std::tuple<NodeId, std::string, int, int64_t>;  // node, option, tensor, samples
  struct Answer {
    LayerCost cost;
    LayerMemory memory;
  };

  const Answer& answer(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const
      TRIREME_EXCLUDES(mutex_);
  const Sizes& sizes_of(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const
      TRIREME_REQUIRES(mutex_);
  UpdateMeasurement update_of(int contributors) const;

  LayerSites sites_;
  const ProfiledCostsOptions options_;
  mutable Mutex mutex_;
  mutable Profile profile_ TRIREME_GUARDED_BY(mutex_);
  mutable std::vector<MeasuredGroup> measured_ TRIREME_GUARDED_BY(mutex_);  // here, not in the profile that was given
  mutable std::map<Question, Answer> known_ TRIREME_GUARDED_BY(mutex_);
};

/// What `sizes` (not empty) say of `samples` > 0.
LayerCost interpolated_cost(const std::map<int64_t, LayerMeasurement>& sizes, int64_t samples);
LayerMemory interpolated_memory(const std::map<int64_t, LayerMeasurement>& sizes, int64_t samples);

}  // namespace trireme
