// Operators that must lie together, made one vertex each: what placements are searched over.
#pragma once

#include <vector>

#include "planner/graph_files/placement_file.h"

namespace trireme {

/// Nodes of one colour, and of colours that depend on each other in a circle.
struct ColorClass {
  std::vector<int> nodes;
  bool on_accelerator = true;       ///< all of them can run there
  double cpu = 0, accelerator = 0;  ///< sums of times
  double bytes = 0;
};

/// The output of a node that other classes read.
struct ClassOutput {
  double send = 0;
  int owner = 0;             ///< its class
  std::vector<int> readers;  ///< classes, without the owner
};

struct ColorGraph {
  std::vector<ColorClass> classes;
  /// What must not lie behind what, by the forward nodes. A class of backward nodes only is ordered by the mirror image
  /// of their edges.
  Dag order;
  std::vector<ClassOutput> outputs;           ///< that cost anything to send
  std::vector<std::vector<int>> owned, read;  ///< per class: numbers of outputs
};

/// Classes that take no time and have one neighbouring class only are put into that one, over and over: no better
/// placement is lost by that, but for one that only memory forbids. So where `memory_may_run_out`, this is done to
/// classes without bytes only.
ColorGraph color_graph(const PlacementProblem& problem, bool memory_may_run_out);

/// Time that the set `inside` (per class) spends sending and receiving: outputs of its own that a class outside reads,
/// outputs from outside that it reads, each once.
double communication(const ColorGraph& graph, const std::vector<char>& inside);

}  // namespace trireme
