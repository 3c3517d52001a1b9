#include "planner/exact/places.h"

namespace trireme {
namespace {

std::vector<int> key_of(const TiedCuts& tied) {
  std::vector<int> key;
  for (const std::optional<TiedCut>& cut : tied) {
    if (!cut) key.push_back(-1);
    else key.insert(key.end(), {int(cut->placement.kind), cut->placement.dim, cut->tensor});
  }
  return key;
}

}  // namespace

std::vector<double> Places::looks_of(DeviceSpan span) const {
  const Cluster& cluster = outline_.facts().request().cluster;
  const auto node = [&](int i) { return cluster.devices[size_t(i)].node; };
  const int end = span.first + span.count;
  std::vector<double> looks{double(span.count), span.first > 0 && node(span.first) != node(span.first - 1) ? 1.0 : 0.0,
                            end < cluster.size() && node(end) != node(end - 1) ? 1.0 : 0.0};
  for (int i = span.first; i < end; ++i) {
    const Device& device = cluster.devices[size_t(i)];
    looks.insert(looks.end(), {double(device.node - node(span.first)), double(device.kind), device.speed, double(device.memory)});
    if (size_t(device.node) >= cluster.nodes.size()) continue;
    const Link& link = cluster.nodes[size_t(device.node)].link;
    looks.insert(looks.end(), {link.bandwidth, link.latency, link.shared ? 1.0 : 0.0});
  }
  return looks;
}

DeviceSpan Places::first_like(DeviceSpan span) {
  const auto [it, fresh] = alike_.try_emplace({span.first, span.count}, span);
  if (fresh) it->second = first_.try_emplace(looks_of(span), span).first->second;
  return it->second;
}

Trellis& Places::trellis(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied) {
  const DeviceSpan like = first_like(span);
  std::unique_ptr<Trellis>& trellis = trellises_[{like.first, like.count, settings, key_of(tied)}];
  if (!trellis) trellis = std::make_unique<Trellis>(outline_, model_.costs(like, settings), tied);
  return *trellis;
}

SegmentSearch& Places::search(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied, const StepRule& rule, bool folded) {
  Trellis& at = trellis(span, settings, tied);
  std::vector<double> key{rule.fill_compute, rule.fill_weight, rule.main_compute, rule.main_weight, rule.once, folded ? 1.0 : 0.0};
  std::unique_ptr<SegmentSearch>& search = searches_[{&at, std::move(key)}];
  if (!search) search = std::make_unique<SegmentSearch>(at, rule, folded);
  return *search;
}

}  // namespace trireme
