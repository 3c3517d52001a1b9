// Profiles in PipeDream's text format: one line per node and one per edge.
//
//     node4 -- Embedding(9, 8) -- forward_compute_time=0.073, backward_compute_time=6.949, (continued on the same line)
//         activation_size=6291456.0, parameter_size=132.0
//     <tab>node1 -- node4
//
// Times are milliseconds, sizes bytes. An activation of several tensors is [a; b; c]. A node may end in " --
// stage_id=3".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "planner/graph_files/dag.h"

namespace trireme {

/// The largest number in a graph file. Larger ones are errors, and sums of such numbers remain finite.
constexpr double kLargestNumber = 1e30;

struct LayerProfile {
  std::string name;                  ///< "node4"
  std::string description;           ///< "Embedding(9, 8)"
  double forward = 0, backward = 0;  ///< seconds
  double activation_bytes = 0, parameter_bytes = 0;
};

/// An acyclic graph of layers.
struct LayerGraph {
  std::vector<LayerProfile> layers;
  Dag edges;
};

/// Throws a user error for a line that does not have the format, numbers below 0 or above kLargestNumber, unknown or
/// repeated nodes, and cycles. Errors name `where` (the file) and the line.
LayerGraph parse_layer_graph(std::string_view text, const std::string& where);
LayerGraph read_layer_graph(const std::filesystem::path& file);

}  // namespace trireme
