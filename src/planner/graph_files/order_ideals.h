// The order ideals of a DAG: sets of vertices that contain each predecessor of their vertices. They are exactly the
// cuts of a pipeline. A sequence of ideals, each within the next, splits the graph into stages (PipeDream's "antichain
// states").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/graph_files/dag.h"

namespace trireme {

/// Numbered such that a set comes before its supersets: 0 is the empty set, size()-1 the whole graph. Immutable.
class OrderIdeals {
 public:
  /// All ideals; nullopt if there are more than `most`. Their number grows as 2^(width of the graph).
  static std::optional<OrderIdeals> all(const Dag& graph, size_t most = kMost);
  /// Only the ideals that are a prefix of one of these topological orders.
  static OrderIdeals along(const Dag& graph, std::span<const std::vector<int>> orders);

  size_t size() const { return steps_begin_.size() - 1; }
  bool contains(size_t ideal, int vertex) const {
    return (words(ideal)[size_t(vertex) / 64] >> (vertex % 64) & 1) != 0;
  }
  bool is_subset(size_t small, size_t large) const {
    const uint64_t *a = words(small), *b = words(large);
    for (size_t i = 0; i < stride_; ++i)
      if ((a[i] & ~b[i]) != 0) return false;
    return true;
  }
  /// An ideal's vertices as the bits of VertexSet.
  std::span<const uint64_t> bits(size_t ideal) const { return {words(ideal), stride_}; }
  /// The vertices of `large` that are not in `small`, ascending.
  std::vector<int> difference(size_t small, size_t large) const;

  /// An ideal that is smaller by one vertex.
  struct Step {
    int32_t smaller, vertex;
  };
  std::span<const Step> steps_down(size_t ideal) const {
    return {steps_.data() + steps_begin_[ideal], steps_.data() + steps_begin_[ideal + 1]};
  }

  /// By ideal: the sum of its vertices' values.
  std::vector<double> sums(std::span<const double> of_vertices) const;

  static constexpr size_t kMost = 2'000'000;

 private:
  friend class IdealsBuilder;
  const uint64_t* words(size_t ideal) const { return words_.data() + ideal * stride_; }

  int vertices_ = 0;
  size_t stride_ = 0;  ///< words per ideal
  std::vector<uint64_t> words_;
  std::vector<Step> steps_;  ///< of ideal i: from steps_begin_[i] to steps_begin_[i + 1]
  std::vector<size_t> steps_begin_;
};

}  // namespace trireme
