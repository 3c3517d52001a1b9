// Directed acyclic graphs of vertices 0..count-1, and common operations on them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trireme {

struct Dag {
  std::vector<std::vector<int>> successors, predecessors;  ///< by vertex, each neighbour once

  int size() const { return int(successors.size()); }
};

/// Edges go from first to second; repeated edges count once. An edge from a vertex to itself is retained and is a
/// cycle.
Dag make_dag(int vertices, std::span<const std::pair<int, int>> edges);

/// The vertices of one cycle in order, the first not repeated; empty if there is no cycle.
std::vector<int> find_cycle(const Dag& graph);

/// By vertex: the number of its strongly connected component. Numbers count from 0.
std::vector<int> strong_components(const Dag& graph);

/// How the next vertex is chosen among those whose predecessors are done.
enum class Order { first_number, breadth_first, depth_first };
std::vector<int> topological_order(const Dag& graph, Order order);

/// Some distinct topological orders, for searches along an order.
std::vector<std::vector<int>> some_topological_orders(const Dag& graph);

/// A set of vertices as bits.
class VertexSet {
 public:
  explicit VertexSet(int vertices) : words_((size_t(vertices) + 63) / 64) {}

  void insert(int v) { words_[size_t(v) / 64] |= bit(v); }
  void remove(int v) { words_[size_t(v) / 64] &= ~bit(v); }
  bool contains(int v) const { return (words_[size_t(v) / 64] & bit(v)) != 0; }
  void insert_all(const VertexSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  std::span<const uint64_t> words() const { return words_; }

 private:
  static uint64_t bit(int v) { return uint64_t(1) << (v % 64); }
  std::vector<uint64_t> words_;
};

}  // namespace trireme
