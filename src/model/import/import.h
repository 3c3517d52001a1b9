// A model of one's own: a TorchScript file, scripted or traced, as a Model with a layer for each of its operators.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/tensor_map.h"

namespace trireme {

struct ImportOptions {
  Shape sample_shape;  ///< of the data; a file fits any shape that its module runs with, and is imported for this one
  int64_t vocabulary = 0;  ///< > 0: the data is token ids below this
};

/// The loss at the model's end, once it is known what the module gives for a sample.
struct LossForOutput {
  /// Of one sample's target. May refuse the output.
  std::function<Shape(const Shape& output)> target_shape;
  /// Adds the loss as the model's last layer.
  std::function<NodeId(ModelBuilder& builder, NodeId output, NodeId target)> add;
};

struct ImportedModel {
  Model model;  ///< named as the file, "own.pt"
  /// What the file holds of the model's parameters and buffers, in the model's shapes: where training begins
  /// (WorkerOptions).
  TensorMap initial_values = {};
  std::vector<std::string> frozen =
      {};  ///< parameters that the file says are not to be trained (requires_grad == False)
  /// What a user should know: what tracing has fixed, which outputs and parameters are left out, dropout that is not
  /// PyTorch's.
  std::vector<std::string> notes = {};
};

/// Runs the module on random samples, in training and in evaluation, with two numbers of samples; writes down which
/// operators it applied to data and parameters; makes layers of them. Operators and groups of operators that layers of
/// Trireme compute become these, other ones are run by libtorch (import/script_layer.h): where they have a rule for it
/// they can be split, else they are opaque. In the end the model and the module are compared on samples in evaluation.
///
/// Parameter names are the module's. Only the module's output, or the main one of several, counts.
///
/// User errors name the file, and where a node is at fault the node and its line in the source: no TorchScript, samples
/// that the module does not run with, control flow or sizes that depend on the data, modes that compute different
/// things, random numbers other than dropout's, state other than batch norm's, samples that depend on each other,
/// operators without a gradient.
ImportedModel import_torchscript(const std::filesystem::path& file, const ImportOptions& options,
                                 const LossForOutput& loss);

}  // namespace trireme
