#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "plan/cluster_file.h"
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

/// The samples of each rank in each micro-batch, where all meshes have the same degrees.
class SamplesOfRanks {
 public:
  SamplesOfRanks(const Program& program, const Cluster& cluster, int64_t batch)
      : tensor_(size_t(program.ops.front().mesh.tensor)), of_rank_(program.list_of_rank.size(), -1) {
    for (const Op& op : program.ops) {
      const Mesh& mesh = op.mesh;
      weighted_ |= !mesh.shares.empty();
      same_degrees_ &= mesh.data == program.ops.front().mesh.data && mesh.tensor == program.ops.front().mesh.tensor;
      equal_ &= batch % (int64_t(program.micro_batches) * mesh.data) == 0;
    }
    if (equal_ || !can_be_compared()) return;
    std::set<int64_t> sizes;  // of micro-batches: at most two
    for (int k = 0; k < program.micro_batches; ++k) sizes.insert(share_of(batch, program.micro_batches, k).size());
    std::map<std::vector<int64_t>, int> kinds;
    for (const Op& op : program.ops) {
      const Mesh& mesh = op.mesh;
      if (of_rank_[size_t(mesh.workers.front())] >= 0) continue;  // an earlier op on the same ranks
      for (int index = 0; index < mesh.data; ++index) {
        std::vector<int64_t> samples;
        samples.reserve(sizes.size());
        for (const int64_t size : sizes) samples.push_back(share_of(size, mesh.data, index).size());
        const int kind = kinds.try_emplace(std::move(samples), int(kinds.size())).first->second;
        const auto first = mesh.workers.begin() + int64_t{index} * mesh.tensor;
        std::for_each(first, first + mesh.tensor, [&](int rank) { of_rank_[size_t(rank)] = kind; });
      }
    }
    tell_mixed_nodes_apart(cluster);
  }

  /// False if ranks with equal numbers of samples may exchange different numbers of samples with other ranks.
  bool can_be_compared() const { return !weighted_ && (equal_ || same_degrees_); }
  /// Returns the kind of a rank. Ranks of one kind have equally many samples in every micro-batch, and their nodes
  /// consist of the same kinds of ranks.
  int kind(int rank) const { return of_rank_[size_t(rank)]; }

 private:
  /// The ranks of a node share its connection. So in a node with several kinds of ranks, a rank represents only the
  /// ranks at the same place of nodes with the same kinds, and the other ranks of its tensor group.
  void tell_mixed_nodes_apart(const Cluster& cluster) {
    std::map<int, std::vector<int>> nodes;  // ranks
    for (int rank = 0; rank < int(of_rank_.size()); ++rank) nodes[cluster.devices[size_t(rank)].node].push_back(rank);
    const int pure = 1 + *std::max_element(of_rank_.begin(), of_rank_.end());
    std::map<std::pair<std::vector<int>, size_t>, int> mixed;  // by kinds in the node and place of the tensor group
    for (const auto& [node, ranks] : nodes) {
      std::vector<int> kinds;
      for (const int rank : ranks) kinds.push_back(kind(rank));
      if (std::adjacent_find(kinds.begin(), kinds.end(), std::not_equal_to<>()) == kinds.end()) continue;
      for (size_t place = 0; place < ranks.size(); ++place)
        of_rank_[size_t(ranks[place])] =
            mixed.try_emplace({kinds, place / tensor_}, pure + int(mixed.size())).first->second;
    }
  }

  const size_t tensor_;  // degree
  bool weighted_ = false, same_degrees_ = true, equal_ = true;
  std::vector<int> of_rank_;
};

bool is_of_bucket(OpCode code) { return description_of(code).operand == Operand::bucket; }

bool alike(const Bucket& a, const Bucket& b) {
  return a.elements == b.elements && a.holders.size() == b.holders.size() && a.dividers == b.dividers &&
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

/// Adds the ranks from which a chosen rank receives, because they must be simulated too. Receivers choose among equal
/// senders round-robin, so a kind may then have two chosen ranks.
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
  for (int rank : all) {  // the ranks of a node follow each other
    const int first = rank / per_node * per_node;
    if (cluster.devices[size_t(rank)].node != cluster.devices[size_t(first)].node) return all;
  }
  const SamplesOfRanks samples(program, cluster, batch);
  if (!samples.can_be_compared()) return all;
  const auto fits_nodes = [per_node](int first, int size) {
    return size % per_node == 0 ? first % per_node == 0 : per_node % size == 0 && first % size == 0;
  };
  for (const Op& op : program.ops) {
    const auto size = int(op.mesh.workers.size());
    const bool is_run = op.mesh.workers.back() - op.mesh.workers.front() == size - 1;
    if (!is_run || !fits_nodes(op.mesh.workers.front(), size)) return all;
    // An axis that crosses a node's border has a different position for some ranks.
    if (size > per_node && per_node % op.mesh.tensor != 0 && op.mesh.tensor % per_node != 0) return all;
  }
  for (const Bucket& bucket : program.buckets) {
    if (bucket.copies() == 1) continue;
    const int stride = bucket.holders[1] - bucket.holders[0];  // the degree of a tensor axis that divides the bucket
    if (!fits_nodes(bucket.holders[0] / stride * stride, stride * bucket.slices())) return all;
  }
  std::vector<int> chosen;
  std::set<std::pair<int, int>> seen;  // instruction lists, with the kind of their ranks
  for (int rank : all) {
    if (!seen.emplace(program.list_of_rank[size_t(rank)], samples.kind(rank)).second) continue;
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](int other) {
      return samples.kind(other) == samples.kind(rank) &&
             same_work(program, program.instructions(other), program.instructions(rank));
    });
    if (!known) chosen.push_back(rank);
  }
  add_senders(program, chosen);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace trireme
