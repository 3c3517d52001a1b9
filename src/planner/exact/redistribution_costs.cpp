#include "planner/exact/redistribution_costs.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

/// How the parts of 1 / parts cover an interval: the number of parts that overlap it, and how much of it part `own`
/// covers. All bounds are integers in units of 1 / (parts * wanted_parts).
struct Cover {
  int parts_met = 0;
  double own = 0;  ///< fraction of the whole
};

Cover cover(int64_t parts, int64_t own, int64_t wanted_parts, int64_t wanted) {
  const int64_t begin = wanted * parts, end = (wanted + 1) * parts;  // in units of 1 / (parts * wanted_parts)
  Cover result;
  result.parts_met = int((end + wanted_parts - 1) / wanted_parts - begin / wanted_parts);
  const int64_t low = std::max(begin, own * wanted_parts), high = std::min(end, (own + 1) * wanted_parts);
  result.own = double(std::max<int64_t>(0, high - low)) / double(parts * wanted_parts);
  return result;
}

/// The same along the tensor axis: the number of summands or shards to read, and the fraction that the worker has
/// itself.
Cover cover_tensor(const StageLayout& from, int own, const StageLayout& to, int wanted) {
  const double needed = to.placement.is_shard() ? 1.0 / to.tensor : 1.0;
  if (from.placement.is_replicate()) return {1, needed};
  if (from.placement.is_partial()) return {from.tensor, needed};
  if (to.placement.is_shard() && to.placement.dim != from.placement.dim) return {from.tensor, needed / from.tensor};
  return cover(from.tensor, own, to.placement.is_shard() ? to.tensor : 1, to.placement.is_shard() ? wanted : 0);
}

}  // namespace

Arrivals arrivals(int workers, const StageLayout& from, const StageLayout& to) {
  const int from_data = workers / from.tensor, to_data = workers / to.tensor;
  const double needed = (to.placement.is_shard() ? 1.0 / to.tensor : 1.0) / to_data;
  const double summands = from.placement.is_partial() ? from.tensor : 1;
  Arrivals most;
  for (int w = 0; w < workers; ++w) {
    const Cover data = cover(from_data, w / from.tensor, to_data, w / to.tensor);
    const Cover tensor = cover_tensor(from, w % from.tensor, to, w % to.tensor);
    const double own = data.own * tensor.own;
    most.share = std::max(most.share, summands * needed - own);
    most.messages = std::max(most.messages, data.parts_met * tensor.parts_met - (own > 0 ? 1 : 0));
  }
  constexpr double kRounding = 1e-12;
  if (most.share < kRounding) return {};
  return most;
}

double RedistributionCosts::seconds(const StageLayout& from, const StageLayout& to, double bytes) const {
  if (from == to || bytes == 0) return 0;
  if (from.tensor == to.tensor) {
    if (from.placement.is_replicate() || to.placement.is_partial()) return 0;  // a slice, or zeros
    const int n = from.tensor;
    const double held = bytes / (span_.count / n);
    if (from.placement.is_partial() && to.placement.is_replicate())
      return ring_all_reduce_seconds(tensor_ring(n), n, held);
    if (from.placement.is_partial() || to.placement.is_replicate())
      return ring_reduce_scatter_seconds(tensor_ring(n), n, held);
    return ring_reduce_scatter_seconds(exchange(n), n, held / n);
  }
  const std::tuple key{from.tensor, int(from.placement.kind), from.placement.dim,
                       to.tensor,   int(to.placement.kind),   to.placement.dim};
  auto found = arrivals_.find(key);
  if (found == arrivals_.end()) found = arrivals_.emplace(key, arrivals(span_.count, from, to)).first;
  if (found->second.messages == 0) return 0;
  const LinkCost& link = exchange(std::lcm(from.tensor, to.tensor));
  return found->second.messages * link.latency + found->second.share * bytes * link.seconds_per_byte;
}

const LinkCost& RedistributionCosts::ring(int stride, int ranks) const {
  const auto found = rings_.find({stride, ranks});
  if (found != rings_.end()) return found->second;
  return rings_.emplace(std::pair{stride, ranks}, ring_link(cluster_, span_, stride, ranks)).first->second;
}

/// Layouts whose degrees divide `block`, which divides the stage, differ only within blocks of that many workers.
const LinkCost& RedistributionCosts::exchange(int block) const {
  const int within = span_.count % block == 0 ? block : span_.count;
  const auto found = exchanges_.find(within);
  if (found != exchanges_.end()) return found->second;
  return exchanges_.emplace(within, exchange_link(cluster_, span_, within)).first->second;
}

}  // namespace trireme
