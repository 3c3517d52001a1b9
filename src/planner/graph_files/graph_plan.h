// The result of a search over a graph file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// The nodes of one device, or of several equal devices.
struct GraphStage {
  std::vector<int> nodes;         ///< node numbers of the file's graph, ascending
  std::string device = "device";  ///< "device" (PipeDream's model), "accelerator" or "cpu"
  int replicas = 1;
  double compute = 0;  ///< time of the stage's nodes, before division among replicas
  double load = 0;     ///< the stage's load in the objective: with communication, per replica
};

/// Times are in the file's unit: seconds for PipeDream's profiles, the file's own unit for the other format.
struct GraphPlan {
  double objective = 0;
  double lower_bound = 0;  ///< no plan is better; equal to the objective if the search completed
  std::vector<GraphStage> stages;
  size_t states = 0;  ///< order ideals searched; 0 if the search does not use ideals
  std::string proof;  ///< the reason for the lower bound
};

/// GraphPlan::proof of a search over order ideals. `states`: 0 if there were too many to list.
std::string proof_in_words(size_t states, bool complete);

}  // namespace trireme
