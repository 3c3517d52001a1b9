#include "planner/exact/stage_searches.h"

#include <algorithm>
#include <limits>

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

std::vector<double> StageSearches::signature_of(DeviceSpan span) const {
  const Cluster& cluster = model_segments_.facts().request().cluster;
  const auto node = [&](int i) { return cluster.devices[size_t(i)].node; };
  const int end = span.first + span.count;
  std::vector<double> signature{double(span.count),
                                span.first > 0 && node(span.first) != node(span.first - 1) ? 1.0 : 0.0,
                                end < cluster.size() && node(end) != node(end - 1) ? 1.0 : 0.0};
  for (int i = span.first; i < end; ++i) {
    const Device& device = cluster.devices[size_t(i)];
    signature.insert(signature.end(), {double(device.node - node(span.first)), double(device.kind), device.speed,
                                       double(device.memory)});
    if (size_t(device.node) >= cluster.nodes.size()) continue;
    const Link& link = cluster.nodes[size_t(device.node)].link;
    signature.insert(signature.end(), {link.bandwidth, link.latency, link.shared ? 1.0 : 0.0});
  }
  return signature;
}

DeviceSpan StageSearches::first_like(DeviceSpan span) {
  const auto [it, fresh] = alike_.try_emplace({span.first, span.count}, span);
  if (fresh) it->second = first_.try_emplace(signature_of(span), span).first->second;
  return it->second;
}

LayoutGraph& StageSearches::layout_graph(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied) {
  const DeviceSpan like = first_like(span);
  std::unique_ptr<LayoutGraph>& layout_graph = layout_graphs_[{like.first, like.count, settings, key_of(tied)}];
  if (!layout_graph) layout_graph = std::make_unique<LayoutGraph>(model_segments_, model_.costs(like, settings), tied);
  return *layout_graph;
}

SegmentSearch& StageSearches::search(DeviceSpan span, const StageSettings& settings, const TiedCuts& tied,
                                     const StepRule& rule, bool folded) {
  LayoutGraph& at = layout_graph(span, settings, tied);
  std::vector<double> key{rule.fill_compute, rule.fill_weight, rule.main_compute,
                          rule.main_weight,  rule.once,        folded ? 1.0 : 0.0};
  std::unique_ptr<SegmentSearch>& search = searches_[{&at, std::move(key)}];
  if (!search) search = std::make_unique<SegmentSearch>(at, rule, folded, deadline_);
  return *search;
}

size_t StageSearches::labels() const {
  size_t labels = 0;
  for (const auto& [key, search] : searches_) labels += search->labels();
  return labels;
}

template <class Value>
std::vector<double> StageSearches::least_sums(Value&& value) const {
  const int units = model_segments_.units();
  std::vector<double> sums(size_t(units) + 1, std::numeric_limits<double>::infinity());
  sums[0] = 0;
  for (int end = 1; end <= units; ++end)
    for (int begin = 0; begin < end; ++begin)
      sums[size_t(end)] = std::min(sums[size_t(end)], sums[size_t(begin)] + value(begin, end));
  return sums;
}

const StageSearches::Fills& StageSearches::fills(const std::set<SegmentSearch*>& searches) {
  const auto [it, fresh] = fills_.try_emplace(searches);
  Fills& fills = it->second;
  if (!fresh) return fills;
  const int units = model_segments_.units();
  const auto least = [&](int begin, int end, double (SegmentSearch::*of)(int)) {
    double value = std::numeric_limits<double>::infinity();
    for (SegmentSearch* search : searches)
      value = std::min(value, (search->*of)(model_segments_.segment_of(begin, end)));
    return value;
  };
  fills.before = least_sums([&](int begin, int end) { return least(begin, end, &SegmentSearch::least_fill); });
  fills.after =
      least_sums([&](int begin, int end) { return least(units - end, units - begin, &SegmentSearch::least_fill); });
  std::reverse(fills.after.begin(), fills.after.end());
  fills.main = least_sums([&](int begin, int end) { return least(begin, end, &SegmentSearch::least_main); }).back();
  return fills;
}

}  // namespace trireme
