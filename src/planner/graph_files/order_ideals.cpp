#include "planner/graph_files/order_ideals.h"

#include <algorithm>
#include <unordered_map>

namespace trireme {

/// Finds ideals level by level: each ideal extends a smaller one by one vertex.
class IdealsBuilder {
 public:
  explicit IdealsBuilder(const Dag& graph) : graph_(graph) {
    ideals_.vertices_ = graph.size();
    ideals_.stride_ = std::max<size_t>(VertexSet(graph.size()).words().size(), 1);
    ideals_.words_.resize(ideals_.stride_);
    down_.emplace_back();
  }

  size_t size() const { return down_.size(); }

  /// The number of the ideal `from` plus `vertex`; adds it if it is new.
  size_t grow(size_t from, int vertex) {
    const size_t stride = ideals_.stride_;
    // Appended as if it were new; removed again if it is not.
    ideals_.words_.resize((size() + 1) * stride);
    uint64_t* added = ideals_.words_.data() + size() * stride;
    std::copy_n(ideals_.words(from), stride, added);
    added[size_t(vertex) / 64] |= uint64_t(1) << (vertex % 64);
    auto& same_hash = by_hash_[hash(added)];
    for (uint32_t candidate : same_hash)
      if (std::equal(added, added + stride, ideals_.words(candidate))) {
        ideals_.words_.resize(size() * stride);
        add_step(candidate, from, vertex);
        return candidate;
      }
    same_hash.push_back(uint32_t(size()));
    down_.emplace_back();
    add_step(size() - 1, from, vertex);
    return size() - 1;
  }

  /// Adds all ideals that extend `ideal` by one vertex.
  void grow_all(size_t ideal) {
    for (int v = 0; v < graph_.size(); ++v) {
      if (ideals_.contains(ideal, v)) continue;
      const auto& before = graph_.predecessors[size_t(v)];
      if (std::all_of(before.begin(), before.end(), [&](int p) { return ideals_.contains(ideal, p); })) grow(ideal, v);
    }
  }

  OrderIdeals finish() {
    for (const auto& steps : down_) {
      ideals_.steps_begin_.push_back(ideals_.steps_.size());
      ideals_.steps_.insert(ideals_.steps_.end(), steps.begin(), steps.end());
    }
    ideals_.steps_begin_.push_back(ideals_.steps_.size());
    return std::move(ideals_);
  }

 private:
  uint64_t hash(const uint64_t* words) const {
    uint64_t value = 0x9E3779B97F4A7C15;
    for (size_t i = 0; i < ideals_.stride_; ++i) {
      value = (value ^ words[i]) * 0xBF58476D1CE4E5B9;
      value ^= value >> 29;
    }
    return value;
  }
  void add_step(size_t ideal, size_t from, int vertex) {
    auto& steps = down_[ideal];
    if (std::none_of(steps.begin(), steps.end(), [&](const OrderIdeals::Step& step) { return step.vertex == vertex; }))
      steps.push_back({int32_t(from), vertex});
  }

  const Dag& graph_;
  OrderIdeals ideals_;
  std::vector<std::vector<OrderIdeals::Step>> down_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
};

std::optional<OrderIdeals> OrderIdeals::all(const Dag& graph, size_t most) {
  IdealsBuilder builder(graph);
  for (size_t ideal = 0; ideal < builder.size(); ++ideal) {
    builder.grow_all(ideal);
    if (builder.size() > most) return std::nullopt;
  }
  return builder.finish();
}

OrderIdeals OrderIdeals::along(const Dag& graph, std::span<const std::vector<int>> orders) {
  IdealsBuilder builder(graph);
  std::vector<size_t> at(orders.size(), 0);
  for (int taken = 0; taken < graph.size(); ++taken)
    for (size_t o = 0; o < orders.size(); ++o) at[o] = builder.grow(at[o], orders[o][size_t(taken)]);
  return builder.finish();
}

std::vector<int> OrderIdeals::difference(size_t small, size_t large) const {
  std::vector<int> vertices;
  for (int v = 0; v < vertices_; ++v)
    if (contains(large, v) && !contains(small, v)) vertices.push_back(v);
  return vertices;
}

std::vector<double> OrderIdeals::sums(std::span<const double> of_vertices) const {
  std::vector<double> result(size(), 0.0);
  for (size_t ideal = 1; ideal < size(); ++ideal) {
    const Step step = steps_down(ideal).front();
    result[ideal] = result[size_t(step.smaller)] + of_vertices[size_t(step.vertex)];
  }
  return result;
}

}  // namespace trireme
