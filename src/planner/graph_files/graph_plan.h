// What a search over a graph file found.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// Nodes that one device, or several alike, work on.
struct GraphStage {
  std::vector<int> nodes;         ///< as numbered in the file's graph, ascending
  std::string device = "device";  ///< "device" (PipeDream's model), "accelerator" or "cpu"
  int replicas = 1;
  double compute = 0;  ///< of the stage's nodes, before it is divided among replicas
  double load = 0;     ///< what counts for the objective: with communication, per replica
};

/// Times are in the file's unit: seconds for PipeDream's profiles, whatever the file has for the other format.
struct GraphPlan {
  double objective = 0;
  double lower_bound = 0;  ///< no plan is better than this; equal to the objective where the search came to its end
  std::vector<GraphStage> stages;
  size_t states = 0;  ///< order ideals searched; 0 where the search is not one over ideals
  std::string proof;  ///< what the lower bound comes from
};

/// GraphPlan::proof of a search over order ideals. `states`: 0 where there were too many to list.
std::string proof_in_words(size_t states, bool complete);

}  // namespace trireme
