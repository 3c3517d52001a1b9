// Workloads in the JSON format of msr-fiddle's dnn-partitioning: a graph of operators and the devices to place them on.
//
//     {"maxSizePerFPGA": 16e9, "maxFPGAs": 6, "maxCPUs": 1,
//      "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 12.4, "fpgaLatency": 1.2, "isBackwardNode": 0,
//                 "colorClass": 7, "size": 9}],
//      "edges": [{"sourceId": 1, "destId": 3, "cost": 0.05}]}
//
// "FPGA" is any accelerator. colorClass (nodes of one colour are on one device) and size are optional.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/graph_files/dag.h"
#include "planner/graph_files/layer_profile.h"

namespace trireme {

struct PlacementNode {
  int id = 0;                  ///< id in the file
  std::string name;            ///< "name" in the file, or the id
  bool on_accelerator = true;  ///< an accelerator can run it
  bool backward = false;
  double cpu = 0, accelerator = 0;  ///< times, in the file's unit
  double bytes = 0;                 ///< memory on an accelerator
  double send = 0;                  ///< time to move its output between an accelerator and the host
  std::optional<int> color;
};

struct PlacementProblem {
  int accelerators = 0, cpus = 0;
  double memory = 0;  ///< bytes per accelerator; CPUs have no limit
  std::vector<PlacementNode> nodes;
  Dag edges;  ///< acyclic; no edge from a backward node to a forward node
};

/// Throws a user error for missing keys, wrong types, numbers out of range, unknown or repeated ids, edges of one node
/// with different costs, and cycles. Errors name `where` (the file) and the JSON path.
PlacementProblem parse_placement(const nlohmann::json& json, const std::string& where);
PlacementProblem read_placement(const std::filesystem::path& file);

/// Converts a profile to a training workload. Each layer is a forward node and a backward node of one colour. Both have
/// the layer's activations + weights as bytes and send the layer's activations. Backward edges mirror the forward
/// edges. Times are seconds; there is no CPU. `bandwidth` is in bytes per second.
PlacementProblem training_placement(const LayerGraph& profile, int accelerators, double memory, double bandwidth);

}  // namespace trireme
