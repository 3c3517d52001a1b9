#include "comm/virtual/duplex_links.h"

#include <algorithm>

namespace trireme {

DuplexLinks::DuplexLinks(const std::vector<LinkSpeed>& connections) {
  for (const LinkSpeed& speed : connections) connections_.push_back({speed});
}

double DuplexLinks::message(int from, int to, int64_t bytes, double now) {
  Connection& a = connections_[size_t(from)];
  Connection& b = connections_[size_t(to)];
  const auto share = [bytes](const Connection& c) {
    return c.speed.bandwidth > 0 ? double(bytes) / c.speed.bandwidth : 0;
  };
  const double begin = std::max(now, a.out_free);
  a.out_free = begin + share(a);
  b.in_free = std::max(begin, b.in_free) + share(b);
  return std::max(a.out_free, b.in_free) + std::max(a.speed.latency, b.speed.latency);
}

double DuplexLinks::collective(std::span<const int> members, std::span<const int64_t> bytes, int rounds, double ready) {
  if (members.size() < 2) return ready;
  double begin = ready, transfer = 0, latency = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const Connection& c = connections_[size_t(members[i])];
    begin = std::max({begin, c.out_free, c.in_free});
    if (c.speed.bandwidth > 0) transfer = std::max(transfer, double(bytes[i]) / c.speed.bandwidth);
    latency = std::max(latency, c.speed.latency);
  }
  for (int member : members)
    connections_[size_t(member)].out_free = connections_[size_t(member)].in_free = begin + transfer;
  return begin + transfer + rounds * latency;
}

}  // namespace trireme
