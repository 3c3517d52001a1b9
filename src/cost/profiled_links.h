// Links between the threads of one process on this machine, from a profile's measurements. Moving a tensor is work of a
// core.
#pragma once

#include "cost/links.h"
#include "profile/profile.h"

namespace trireme {

class ProfiledLinks final : public Links {
 public:
  /// The link part of a profile, for `workers` workers with one intra-op thread each on `cores` cores.
  ProfiledLinks(const LinkMeasurement& measured, int workers, int cores, Overlap overlap = Overlap::nothing);

  const std::vector<Pool>& pools() const override { return pools_; }
  Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const override;
  Demand redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const override;
  Demand giving(double, std::span<const int>, int, int) const override { return {}; }
  Demand message(int from, int to, double bytes, int alike) const override;
  bool receiver_moves() const override { return true; }
  int cores_of(int) const override { return 0; }
  Overlap overlap() const override { return overlap_; }
  double hand_over() const override;

 private:
  Demand together(const std::string& operation, double bytes, int workers) const;
  TransferLine line_of(const std::string& operation, int workers) const;

  const LinkMeasurement measured_;
  const bool crowded_;  ///< more workers than cores: a waiting worker sleeps
  const double cores_;
  const Overlap overlap_;
  std::vector<Pool> pools_;
};

}  // namespace trireme
