// Emulated links between the workers of this process (comm/local/emulated_links.h). Each worker has one connection of a
// given speed. A worker does not compute while it moves a tensor, except for gradients. All workers compute on the
// cores of this machine.
#pragma once

#include "cost/cluster_links.h"

namespace trireme {

class LinksOfSpeed final : public Links {
 public:
  /// `bandwidth`: bytes/s in each direction, 0: no limit. `latency`: seconds.
  LinksOfSpeed(int workers, int cores, double bandwidth, double latency);

  const std::vector<Pool>& pools() const override { return pools_; }
  Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const override {
    return connections_.collective(kind, bytes, ranks, alike);
  }
  Demand giving(double bytes, std::span<const int> ranks, int rank, int alike) const override {
    return connections_.giving(bytes, ranks, rank, alike);
  }
  Demand message(int from, int to, double bytes, int alike) const override {
    return connections_.message(from, to, bytes, alike);
  }
  bool receiver_moves() const override { return false; }
  int cores_of(int) const override { return int(pools_.size()) - 1; }
  Overlap overlap() const override { return connections_.overlap(); }

 private:
  const ClusterLinks connections_;
  std::vector<Pool> pools_;
};

}  // namespace trireme
