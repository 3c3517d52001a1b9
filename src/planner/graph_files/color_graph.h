// Merges operators that must be on one device into one vertex. Placements are searched over these vertices.
#pragma once

#include <vector>

#include "planner/graph_files/placement_file.h"

namespace trireme {

/// The nodes of one colour, or of several colours that depend on each other in a cycle.
struct ColorClass {
  std::vector<int> nodes;
  bool on_accelerator = true;       ///< an accelerator can run all nodes
  double cpu = 0, accelerator = 0;  ///< sums of times
  double bytes = 0;
};

/// A node's output that other classes read.
struct ClassOutput {
  double send = 0;
  int owner = 0;             ///< class of the node
  std::vector<int> readers;  ///< classes that read it, without the owner
};

struct ColorGraph {
  std::vector<ColorClass> classes;
  /// The order that parts must respect, from the forward nodes. A class with only backward nodes is ordered by the
  /// mirror image of their edges.
  Dag order;
  std::vector<ClassOutput> outputs;           ///< outputs with a cost to send
  std::vector<std::vector<int>> owned, read;  ///< by class: indices into `outputs`
};

/// Merges classes that take no time and have only one neighbouring class into that class, repeatedly. The best
/// placement is not lost by this, unless memory limits matter. If `memory_may_run_out`, only classes without bytes are
/// merged.
ColorGraph color_graph(const PlacementProblem& problem, bool memory_may_run_out);

/// Time that the set `inside` (by class) spends sending and receiving: its own outputs that a class outside reads, and
/// outputs from outside that it reads. Each output counts once.
double communication(const ColorGraph& graph, const std::vector<char>& inside);

}  // namespace trireme
