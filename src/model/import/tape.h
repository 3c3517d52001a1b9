// What a run of a TorchScript module leaves (interpreter.h).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/import/graph.h"
#include "model/import/script_file.h"

namespace trireme::torchscript {

/// Numbers for the ways to a node, shared by the runs of one module.
class Paths {
 public:
  int of(int from, const torch::jit::Node* node, int64_t round = 0);

 private:
  std::map<std::tuple<int, const torch::jit::Node*, int64_t>, int> numbers_;
};

/// A run: a graph that holds for one mode and number of samples only.
struct Tape {
  Graph graph;              ///< batch_dim and fold are not known yet
  std::string output_note;  ///< which part of what the module returns is its output; "" where that is one tensor
  std::vector<std::string> switched_off;  ///< modules whose dropout is told in training that it is not
  std::vector<std::string>
      fixed_to_training;  ///< modules whose norm, dropout, ... is told in evaluation that it trains; it is not done
  /// By value: sums over what would be the first kProbeBatch samples, for every dim that may be the batch's; to compare
  /// runs.
  std::vector<std::vector<double>> signatures;
  at::Tensor output;
};

}  // namespace trireme::torchscript
