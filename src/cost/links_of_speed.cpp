#include "cost/links_of_speed.h"

#include <utility>

namespace trireme {
namespace {

Cluster with_overlap(Cluster cluster, Overlap overlap) {
  cluster.overlap = overlap;
  return cluster;
}

}  // namespace

LinksOfSpeed::LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores)
    : LinksOfSpeed(machines, cores, {}, Overlap::sums) {}

LinksOfSpeed::LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores, WorkOfProcesses work)
    : LinksOfSpeed(machines, cores, std::move(work), Overlap::messages) {}

LinksOfSpeed::LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores, WorkOfProcesses work,
                           Overlap overlap)
    : connections_(with_overlap(machines, overlap)), pools_(connections_.pools()), work_(std::move(work)) {
  for (const Device& device : machines.devices) {
    nodes_.push_back(device.node);
    cores_.push_back(int(pools_.size()) + device.node);
  }
  for (const int of_node : cores) pools_.push_back({Pool::Kind::cores, double(of_node)});
}

/// Processes exchange the blocks of a collective directly: each rank sends one to every other rank, and receives one.
std::vector<Share> LinksOfSpeed::work_beside(RedistributionKind kind, double bytes, std::span<const int> ranks) const {
  const auto n = double(ranks.size());
  const bool is_message = kind == RedistributionKind::send_receive;
  const double rounds = kind == RedistributionKind::all_reduce ? 2 : 1;
  const double block = is_message ? bytes : bytes / n;
  std::vector<Share> shares;
  shares.reserve(ranks.size());
  for (const int rank : ranks) {
    double seconds = 0;
    for (const int other : ranks) {
      if (other == rank) continue;
      const TransferWork& work = nodes_[size_t(rank)] == nodes_[size_t(other)] ? work_.within : work_.between;
      seconds += work.of_message + block * work.of_byte;
    }
    if (is_message) seconds /= 2;  // two ranks share the work: one sends, one receives
    if (seconds > 0) shares.push_back({cores_[size_t(rank)], rounds * seconds});
  }
  return shares;
}

std::vector<Share> LinksOfSpeed::work_of_redistribution(RedistributionKind kind, double bytes,
                                                        std::span<const int> ranks) const {
  const auto known = work_.redistributions.of.find(kind);
  if (known == work_.redistributions.of.end() || ranks.size() < 2) return work_beside(kind, bytes, ranks);
  // In a smaller group a rank sends less of the tensor.
  const auto sent = [](double n) { return 1 - 1 / n; };
  const double measured = work_.redistributions.ranks, part = sent(double(ranks.size())) / sent(measured);
  const double whole = kind == RedistributionKind::all_to_all ? bytes * measured : bytes;
  std::vector<Share> shares;
  shares.reserve(ranks.size());
  for (const int rank : ranks)
    shares.push_back({cores_[size_t(rank)], known->second.of_message + part * whole * known->second.of_byte});
  return shares;
}

}  // namespace trireme
