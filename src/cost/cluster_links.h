// The links of a described cluster (trireme/cluster.h). Rank r is device r.
//
// For its latency, a collective uses the better of two algorithms: ring (2(n-1) messages for an all-reduce) or halving
// and doubling (2 log2 n). Its bytes are those of comm/formulas.h. Over several nodes with g > 1 members each, a
// collective may also run in two levels: reduce-scatter inside the node, all-reduce of 1/g of the tensor by g groups
// across nodes, all-gather inside the node. The faster way is used. Source: Thakur, Rabenseifner, Gropp, "Optimization
// of collective communication operations in MPICH", 2005.
//
// With Collectives::nccl there is neither halving and doubling nor a second level. A ring passes each node once per
// channel; a round inside a node takes that link's latency, a round between nodes the network's. An all-reduce over
// nodes is a ring or a double binary tree, whichever is faster: a tree takes 2 log2(nodes) messages between nodes,
// sends the tensor twice out of each node and reaches 0.92 of the links' bandwidth. Source: the model by which NCCL
// chooses (src/graph/tuning.cc of version 2.18).
//
// With several rails (Fabric), a node's bytes leave through its members' own adapters. Oversubscribed switches are
// approximated: all nodes below a switch are assumed to send equally and at the same time, so each has an equal share
// of the switch's connection. A ring with k nodes below a switch needs the share of one node and has k of them. Of
// messages to the node d places further, those of min(d, w) of a switch's w nodes cross. The slowdown is charged on the
// node's own connection. Sources: Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network
// architecture", SIGCOMM 2008 (oversubscription); Wang et al., "Rail-only", 2023 (rails).
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "cost/links.h"
#include "trireme/cluster.h"

namespace trireme {

/// The limits of a collective library.
struct CollectiveLibrary {
  bool flat_rings = false;  ///< true if it has only a ring through all members (NCCL before 2.4): no halving and
                            ///< doubling, no two levels
  double connection = 0;  ///< bytes/s of a ring's connection between two nodes, if that is less than the network's; 0:
                          ///< no limit
};

class ClusterLinks final : public Links {
 public:
  /// The cluster must have device kinds. It is copied.
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
  /// The pools of a device's adapter.
  int network_out(int device) const { return network_out_[adapter_of(device)]; }
  int network_in(int device) const { return network_in_[adapter_of(device)]; }
  size_t adapter_of(int device) const;
  int switch_of(int node) const;
  void add_network(const std::vector<int>& members, double bytes, int alike, Demand& demand) const;
  double uplink_factor(int node, const std::vector<int>& nodes) const;
  using MembersByNode = std::map<int, std::vector<int>>;
  Demand nccl(RedistributionKind kind, double bytes, int n, double near, const MembersByNode& by_node, int alike) const;
  Demand over_nodes(double fixed, const std::function<double(size_t)>& leaving, double inside,
                    const MembersByNode& by_node, int alike) const;
  double seconds_of(const Demand& demand) const;
  int node_of(int device) const { return cluster_.devices[size_t(device)].node; }

  const Cluster cluster_;
  const CollectiveLibrary library_;
  std::vector<Pool> pools_;
  std::vector<int> egress_;                    // by device: pool of its transfers inside its node
  std::vector<int> network_out_, network_in_;  // by node and adapter
  std::vector<int> place_;                     // by device: its number in its node
  std::vector<int> connection_;  // by node: pool of a ring's connection; empty if connections have no limit
};

}  // namespace trireme
