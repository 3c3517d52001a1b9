#include "cost/profiled_links.h"

#include <algorithm>

namespace trireme {
namespace {

/// Bytes that one of n workers reads and writes to have its part of a redistribution, in units of `bytes` of Links::collective.
double taken(RedistributionKind kind) {
  switch (kind) {
    case RedistributionKind::all_gather:      // its own part is copied too
    case RedistributionKind::reduce_scatter:  // everybody's summand of 1/n
    case RedistributionKind::all_to_all:
    case RedistributionKind::all_reduce: return 1;
    case RedistributionKind::none:
    case RedistributionKind::slice:
    case RedistributionKind::send_receive: break;
  }
  return 0;
}

}  // namespace

ProfiledLinks::ProfiledLinks(const LinkMeasurement& measured, int workers, int cores)
    : measured_(measured), crowded_(workers > cores), cores_(cores), pools_{{Pool::Kind::cores, double(cores)}} {}

/// Of the measured number of workers that is nearest.
TransferLine ProfiledLinks::line_of(const std::string& operation, int workers) const {
  const GroupMeasurement* nearest = nullptr;
  for (const GroupMeasurement& group : measured_.groups)
    if (group.lines.count(operation) && (!nearest || std::abs(group.workers - workers) < std::abs(nearest->workers - workers))) nearest = &group;
  return nearest ? nearest->lines.at(operation) : TransferLine{};
}

Demand ProfiledLinks::collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int) const {
  const auto n = double(ranks.size());
  if (n < 2) return {};
  const TransferLine line = line_of(name_of(kind), int(n));
  // with more workers than cores the measured time is that of threads taking turns, which the shared cores bring about here too
  const double own = line.seconds(bytes) - line.latency, turns = std::max(1.0, n / cores_);
  Demand demand{line.latency, {}};
  for (size_t r = 0; r < ranks.size(); ++r) demand.shares.push_back({0, own / turns});
  return demand;
}

/// By messages, but for sums that everybody needs: whoever needs a part reads it where it is.
Demand ProfiledLinks::redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const {
  if (ranks.size() < 2) return {};
  if (kind == RedistributionKind::all_reduce) return collective(kind, bytes, ranks, alike);
  const TransferLine line = line_of("send", 2);
  const double copying = line.bandwidth > 0 ? bytes * taken(kind) / line.bandwidth : 0;
  Demand demand{hand_over(), {}};
  for (size_t r = 0; r < ranks.size(); ++r) demand.shares.push_back({0, copying});
  return demand;
}

Demand ProfiledLinks::message(int from, int to, double bytes, int) const {
  if (from == to) return {};
  const TransferLine line = line_of("send", 2);
  return {0, {{0, line.bandwidth > 0 ? bytes / line.bandwidth : 0}}};
}

double ProfiledLinks::hand_over() const { return crowded_ ? measured_.wake_up : measured_.hand_over; }

}  // namespace trireme
