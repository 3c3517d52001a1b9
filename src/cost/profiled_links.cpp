#include "cost/profiled_links.h"

#include <algorithm>

namespace trireme {

ProfiledLinks::ProfiledLinks(const LinkMeasurement& measured, int workers, int cores, Overlap overlap)
    : measured_(measured),
      crowded_(workers > cores),
      cores_(cores),
      overlap_(overlap),
      pools_{{Pool::Kind::cores, double(cores)}} {}

/// The line of the measured number of workers that is nearest to `workers`.
TransferLine ProfiledLinks::line_of(const std::string& operation, int workers) const {
  const GroupMeasurement* nearest = nullptr;
  for (const GroupMeasurement& group : measured_.groups)
    if (group.lines.count(operation) &&
        (!nearest || std::abs(group.workers - workers) < std::abs(nearest->workers - workers)))
      nearest = &group;
  return nearest ? nearest->lines.at(operation) : TransferLine{};
}

Demand ProfiledLinks::collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int) const {
  return together(name_of(kind), bytes, int(ranks.size()));
}

Demand ProfiledLinks::redistribution(RedistributionKind kind, double bytes, std::span<const int> ranks, int) const {
  // For an all_to_all, `bytes` is what one worker holds.
  return together(redistribution_line(kind),
                  kind == RedistributionKind::all_to_all ? bytes * double(ranks.size()) : bytes, int(ranks.size()));
}

Demand ProfiledLinks::together(const std::string& operation, double bytes, int workers) const {
  if (workers < 2) return {};
  const TransferLine line = line_of(operation, workers);
  // With more workers than cores, the measured time includes threads that take turns on cores. The shared cores of the
  // simulation produce that share themselves, so it is divided out.
  const double own = std::max(0.0, line.seconds(bytes) - line.latency), turns = std::max(1.0, workers / cores_);
  Demand demand{line.latency, {}};
  for (int r = 0; r < workers; ++r) demand.shares.push_back({0, own / turns});
  return demand;
}

Demand ProfiledLinks::message(int from, int to, double bytes, int) const {
  if (from == to) return {};
  const TransferLine line = line_of("send", 2);
  return {0, {{0, std::max(0.0, line.seconds(bytes) - line.latency)}}};
}

double ProfiledLinks::hand_over() const { return crowded_ ? measured_.wake_up : measured_.hand_over; }

}  // namespace trireme
