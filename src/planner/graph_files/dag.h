// Directed acyclic graphs of vertices 0..count-1, and what every planner asks of them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trireme {

struct Dag {
  std::vector<std::vector<int>> successors, predecessors;  ///< of each vertex, each neighbour once

  int size() const { return int(successors.size()); }
};

/// Edges from first to second; repeated ones count once. An edge from a vertex to itself is kept: it is a cycle.
Dag make_dag(int vertices, std::span<const std::pair<int, int>> edges);

/// The vertices of one cycle in their order, the first not repeated; empty where there is none.
std::vector<int> find_cycle(const Dag& graph);

/// For each vertex the number of its strongly connected component; numbers count up from 0.
std::vector<int> strong_components(const Dag& graph);

/// How the next vertex is taken of those whose predecessors are done.
enum class Order { first_number, breadth_first, depth_first };
std::vector<int> topological_order(const Dag& graph, Order order);

/// Distinct topological orders, for searches that look only along an order.
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
