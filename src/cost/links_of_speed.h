// Links of given speeds between workers that compute on cores: emulated links between the workers of this process
// (comm/local/emulated_links.h), or measured ones between processes. A worker computes while its gradients are summed,
// and a process also while its messages are sent.
#pragma once

#include <vector>

#include "cost/cluster_links.h"
#include "profile/measure_links.h"

namespace trireme {

/// The work of processes' cores for their transfers.
struct WorkOfProcesses {
  TransferWork within = {}, between = {};   ///< for messages between processes of a machine, and of different machines
  RedistributionWork redistributions = {};  ///< empty: the work of their messages
};

class LinksOfSpeed final : public Links {
 public:
  /// Workers on several machines, the cluster's nodes: threads with emulated links. `cores`: by node.
  LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores);
  /// Workers that are processes, with their work.
  LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores, WorkOfProcesses work);

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
  std::vector<Share> work_beside(RedistributionKind kind, double bytes, std::span<const int> ranks) const override;
  std::vector<Share> work_of_redistribution(RedistributionKind kind, double bytes,
                                            std::span<const int> ranks) const override;
  bool receiver_moves() const override { return false; }
  int cores_of(int rank) const override { return cores_[size_t(rank)]; }
  Overlap overlap() const override { return connections_.overlap(); }

 private:
  LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores, WorkOfProcesses work, Overlap overlap);

  const ClusterLinks connections_;
  std::vector<Pool> pools_;
  std::vector<int> nodes_, cores_;  ///< by rank: its machine, pool of its machine's cores
  const WorkOfProcesses work_;
};

}  // namespace trireme
