// Runs a TorchScript module node by node, in one mode and with one number of samples, and writes down which operators it applied
// to data and parameters. Whatever depends on neither is simply computed: attributes, sizes, loops, conditions, masks, indices.
//
// Real tensors flow through the run, and real lists, dicts and objects, so aliasing is TorchScript's own; a table says which value
// a tensor is. An operator that works in place is written down as the one that does not, and its tensor is another value from then
// on; PyTorch's version counters tell when a view of such a tensor is read afterwards, which is refused.
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
  Graph graph;                              ///< batch_dim and fold are not known yet
  std::string output_note;                  ///< which part of what the module returns is its output; "" where that is one tensor
  std::vector<std::string> switched_off;    ///< modules whose dropout is told in training that it is not
  std::vector<std::string> fixed_to_training;  ///< modules whose norm, dropout, ... is told in evaluation that it trains; it is not done
  /// By value: sums over what would be the first kProbeBatch samples, for every dim that may be the batch's; to compare runs.
  std::vector<std::vector<double>> signatures;
  at::Tensor output;
};

/// User errors that name the node and its line: control flow or sizes that depend on the data, module state that changes from step
/// to step, a view that is read after its tensor was changed in place, operators without a schema or a functional form, whatever
/// the module itself raises.
Tape walk(const ScriptFile& file, Paths& paths, bool training, const at::Tensor& data);

}  // namespace trireme::torchscript
