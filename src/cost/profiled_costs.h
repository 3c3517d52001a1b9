// Layer costs from a profile: the measured value at a measured size; between two measured sizes, the line through them;
// beyond them, the line through the last two. What does not fit into the memory of this machine is not measured but
// extrapolated.
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
  bool measures_missing = false;  ///< true: measures layers, updates and larger sizes that the profile lacks. false:
                                  ///< missing layers and updates are user errors, larger sizes are extrapolated
  StepFactors factors = {};       ///< measured seconds and crowding are multiplied by these
  int threads = 1;                ///< intra-op threads of a worker, when measuring
  std::string where = "profile";  ///< name of the profile in errors
};

class ProfiledCosts final : public LayerCosts {
 public:
  /// The model must outlive this object. The profile must be of this machine (check_same_machine).
  ProfiledCosts(const Model& model, Profile profile, ProfiledCostsOptions options = {});

  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override;
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override;
  double update_seconds(int64_t elements, int contributors, int kind = -1) const override;
  double update_crowding(int contributors) const override;

  /// Repeats the measurements made since the last call (profile/measure_again.h). Returns true if there were any; then
  /// later results may differ. Must not run while another thread uses this object.
  bool measure_again(double seconds) const;
  /// Uses these factors from now on. Must not run while another thread uses this object.
  void set_factors(const StepFactors& factors) const;
  /// The profile, including all later measurements.
  Profile profile() const;

 private:
  using Sizes = std::map<int64_t, LayerMeasurement>;
  using CostKey = std::tuple<NodeId, std::string, int, int64_t>;  // node, option, tensor, samples
  struct CostEntry {
    LayerCost cost;
    LayerMemory memory;
  };

  const CostEntry& entry(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const
      TRIREME_EXCLUDES(mutex_);
  const Sizes& sizes_of(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const
      TRIREME_REQUIRES(mutex_);
  int64_t most_samples() const TRIREME_REQUIRES(mutex_);
  UpdateMeasurement update_of(int contributors) const;

  LayerSites sites_;
  const ProfiledCostsOptions options_;
  mutable Mutex mutex_;
  mutable StepFactors factors_ TRIREME_GUARDED_BY(mutex_);
  mutable Profile profile_ TRIREME_GUARDED_BY(mutex_);
  // measurements made by this object, not in the given profile
  mutable std::vector<MeasuredGroup> measured_ TRIREME_GUARDED_BY(mutex_);
  mutable std::map<CostKey, CostEntry> known_ TRIREME_GUARDED_BY(mutex_);
  mutable int64_t most_samples_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< that are measured here at once; 0: not known yet
};

/// Interpolates the measured `sizes` (not empty) for `samples` > 0.
LayerCost interpolated_cost(const std::map<int64_t, LayerMeasurement>& sizes, int64_t samples);
LayerMemory interpolated_memory(const std::map<int64_t, LayerMeasurement>& sizes, int64_t samples);

}  // namespace trireme
