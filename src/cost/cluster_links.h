// The links of a described cluster (trireme/cluster.h): rank r is device r.
//
// Collectives take the better of two ways for latency, rings (2(n-1) messages for an all-reduce) and halving and
// doubling (2 log2 n), with the bytes of comm/formulas.h. Over several nodes with g > 1 members each they may also go
// in two levels: reduce-scatter in the node, all-reduce of 1/g of the tensor by g groups across nodes, all-gather in
// the node; the quicker way counts. Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations
// in MPICH", 2005.
#pragma once

#include "cost/links.h"
#include "trireme/cluster.h"

namespace trireme {

/// What a library of collectives does not do as well as it could.
struct CollectiveLibrary {
  bool flat_rings = false;  ///< a ring through all members is all that it has (NCCL before 2.4): no halving and
                            ///< doubling, no two levels
  double connection = 0;    ///< bytes/s that a ring's connection between two nodes carries, where that is less than the
                            ///< network; 0: no limit
};

class ClusterLinks final : public Links {
 public:
  /// The cluster must have kinds; it is copied.
  explicit ClusterLinks(const Cluster& cluster, const CollectiveLibrary& library = {});

  const std::vector<Pool>& pools() const override { return pools_; }
  Demand collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const override;
  Demand giving(double bytes, std::span<const int> ranks, int rank, int alike) const override;
  Demand message(int from, int to, double bytes, int alike) const override;
  std::vector<int> pools_of(int rank) const override;
  bool receiver_moves() const override { return false; }
  int cores_of(int) const override { return -1; }
  Overlap overlap() const override { return cluster_.overlap; }
  double compute_slowdown() const override { return cluster_.compute_slowdown; }

 private:
  int egress_of(int device) const { return egress_[size_t(device)]; }
  int network_out(int node) const { return network_out_[size_t(node)]; }
  int network_in(int node) const { return network_in_[size_t(node)]; }
  int node_of(int device) const { return cluster_.devices[size_t(device)].node; }

  const Cluster cluster_;
  const CollectiveLibrary library_;
  std::vector<Pool> pools_;
  std::vector<int> egress_;                    // by device: pool of what it sends within its node
  std::vector<int> network_out_, network_in_;  // by node
  std::vector<int> connection_;                // by node: that of rings; empty where nothing limits it
};

}  // namespace trireme
