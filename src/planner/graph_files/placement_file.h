// Workloads in the JSON format of msr-fiddle's dnn-partitioning: a graph of operators and the devices to place them on.
//
//   {"maxSizePerFPGA": 16e9, "maxFPGAs": 6, "maxCPUs": 1,
//    "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 12.4, "fpgaLatency": 1.2, "isBackwardNode": 0, "colorClass": 7, "size": 9}],
//    "edges": [{"sourceId": 1, "destId": 3, "cost": 0.05}]}
//
// "FPGA" stands for any accelerator. colorClass (nodes of one colour lie on one device) and size may be missing.
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
  int id = 0;                  ///< the file's
  std::string name;            ///< the file's "name", or its id
  bool on_accelerator = true;  ///< whether an accelerator can run it
  bool backward = false;
  double cpu = 0, accelerator = 0;  ///< times, in the file's unit
  double bytes = 0;                 ///< on an accelerator
  double send = 0;                  ///< time to move its output between an accelerator and the host
  std::optional<int> color;
};

struct PlacementProblem {
  int accelerators = 0, cpus = 0;
  double memory = 0;  ///< bytes of one accelerator; CPUs have no limit
  std::vector<PlacementNode> nodes;
  Dag edges;  ///< without cycles, none from a backward node to a forward one
};

/// Errors (user): missing keys, wrong types, numbers out of range, unknown or repeated ids, edges of one node with
/// different costs, cycles; they name `where` (the file) and the JSON path.
PlacementProblem parse_placement(const nlohmann::json& json, const std::string& where);
PlacementProblem read_placement(const std::filesystem::path& file);

/// A profile as a training workload: each layer a forward and a backward node of one colour, both of the layer's
/// activations + weights in bytes, sending the layer's activations; backward edges mirror the forward ones. Times in
/// seconds; no CPU. `bandwidth` in bytes per second.
PlacementProblem training_placement(const LayerGraph& profile, int accelerators, double memory, double bandwidth);

}  // namespace trireme
