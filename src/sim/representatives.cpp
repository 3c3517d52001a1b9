#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "program/rendezvous.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

bool is_uniform(const Cluster& cluster) {
  return std::all_of(cluster.devices.begin(), cluster.devices.end(),
                     [&](const Device& device) {
                       const Device& first = cluster.devices.front();
                       return device.kind == first.kind && device.speed == first.speed;
                     }) &&
         std::all_of(cluster.nodes.begin(), cluster.nodes.end(), [&](const ClusterNode& node) {
           const Link &a = node.link, &b = cluster.nodes.front().link;
           return a.bandwidth == b.bandwidth && a.latency == b.latency && a.shared == b.shared;
         });
}

/// The number of devices of each node; 0 if nodes differ.
int devices_per_node(const Cluster& cluster) {
  std::map<int, int> counts;
  for (const Device& device : cluster.devices) ++counts[device.node];
  const int first = counts.begin()->second;
  return std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c.second == first; }) ? first : 0;
}

bool has_equal_shares(const Mesh& mesh, const Program& program, int64_t batch) {
  return mesh.shares.empty() && batch % (int64_t(program.micro_batches) * mesh.data) == 0;
}

bool is_of_bucket(OpCode code) { return description_of(code).operand == Operand::bucket; }

bool alike(const Bucket& a, const Bucket& b) {
  return a.elements == b.elements && a.holders.size() == b.holders.size() &&
         a.contributors.size() == b.contributors.size() && a.full_precision == b.full_precision &&
         a.versions == b.versions;
}

/// True if two lists differ only in the names of equal buckets. Ranks with different indices on a tensor axis hold
/// different slices of the same parameters.
bool same_work(const Program& program, const std::vector<Instruction>& a, const std::vector<Instruction>& b) {
  if (a.size() != b.size()) return false;
  std::map<BucketId, BucketId> partner;
  for (size_t k = 0; k < a.size(); ++k) {
    Instruction other = b[k];
    if (is_of_bucket(a[k].code) && is_of_bucket(other.code)) {
      const auto [known, fresh] = partner.try_emplace(a[k].index, other.index);
      if (known->second != other.index) return false;
      if (fresh && !alike(program.buckets[size_t(a[k].index)], program.buckets[size_t(other.index)])) return false;
      other.index = a[k].index;
    }
    if (!(a[k] == other)) return false;
  }
  return true;
}

/// Adds the ranks from which a chosen rank receives, because they must be simulated too. Replicas are read round-robin,
/// so a sender may be the second of its kind.
void add_senders(const Program& program, std::vector<int>& chosen) {
  std::vector<bool> is_chosen(program.list_of_rank.size(), false);
  for (int rank : chosen) is_chosen[size_t(rank)] = true;
  for (size_t k = 0; k < chosen.size(); ++k) {  // `chosen` grows in the loop
    const int rank = chosen[k];
    for (const Site& site : program.sites[size_t(program.list_of_rank[size_t(rank)])].sites) {
      const Role role = role_of(program, rank, site);
      if (role.part != Part::take) continue;
      const std::vector<int>& members = program.channels[size_t(role.channel)].members;
      if (std::any_of(members.begin(), members.end(), [&](int m) { return is_chosen[size_t(m)]; })) continue;
      chosen.push_back(members.front());
      is_chosen[size_t(members.front())] = true;
    }
  }
}

}  // namespace

std::vector<int> representatives(const Program& program, const Cluster& cluster, int64_t batch) {
  std::vector<int> all(program.list_of_rank.size());
  std::iota(all.begin(), all.end(), 0);
  const int per_node = devices_per_node(cluster);
  if (!is_uniform(cluster) || per_node == 0) return all;
  for (const Op& op : program.ops) {
    const auto size = int(op.mesh.workers.size());
    const bool is_run = op.mesh.workers.back() - op.mesh.workers.front() == size - 1;
    const bool fits_nodes = size % per_node == 0 ? op.mesh.workers.front() % per_node == 0
                                                 : per_node % size == 0 && op.mesh.workers.front() % size == 0;
    if (!is_run || !fits_nodes || !has_equal_shares(op.mesh, program, batch)) return all;
    // An axis that crosses a node's border has a different position for some ranks.
    if (size > per_node && per_node % op.mesh.tensor != 0 && op.mesh.tensor % per_node != 0) return all;
  }
  std::vector<int> chosen;
  std::set<int> seen;  // instruction lists
  for (int rank : all) {
    if (!seen.insert(program.list_of_rank[size_t(rank)]).second) continue;
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](int other) {
      return same_work(program, program.instructions(other), program.instructions(rank));
    });
    if (!known) chosen.push_back(rank);
  }
  add_senders(program, chosen);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace trireme
