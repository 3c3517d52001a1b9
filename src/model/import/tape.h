// The record of one run of a TorchScript module (interpreter.h).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/import/graph.h"
#include "model/import/script_file.h"

namespace trireme::torchscript {

/// Assigns numbers to the execution paths that lead to a node. Shared by the runs of one module.
class Paths {
 public:
  int of(int from, const torch::jit::Node* node, int64_t round = 0);

 private:
  std::map<std::tuple<int, const torch::jit::Node*, int64_t>, int> numbers_;
};

/// The record of a run: a graph that is valid for one mode and one number of samples only.
struct Tape {
  Graph graph;              ///< batch_dim and fold are not set yet
  std::string output_note;  ///< which part of the module's return value is its output; "" if it returns one tensor
  std::vector<std::string> switched_off;  ///< modules whose dropout is disabled in training
  /// Modules whose norm, dropout, ... has its training flag set in evaluation. The flag is ignored.
  std::vector<std::string> fixed_to_training;
  /// Per value: sums over the first kProbeBatch samples, for every dim that may be the batch's. Used to compare runs.
  std::vector<std::vector<double>> signatures;
  at::Tensor output;
};

}  // namespace trireme::torchscript
