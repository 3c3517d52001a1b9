// Imports a user's own model: a TorchScript file, scripted or traced, becomes a Model with a layer for each of its
// operators.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/model.h"

namespace trireme {

struct ImportOptions {
  /// Sample shape of the data. A file may accept several shapes; it is imported for this one.
  Shape sample_shape;
  int64_t vocabulary = 0;  ///< > 0: the data is token ids below this
};

/// The loss at the model's end, created once the module's output shape for a sample is known.
struct LossForOutput {
  /// Returns the shape of one sample's target. May throw to reject the output.
  std::function<Shape(const Shape& output)> target_shape;
  /// Adds the loss as the model's last layer. Returns its node.
  std::function<NodeId(ModelBuilder& builder, NodeId output, NodeId target)> add;
};

struct ImportedModel {
  Model model;  ///< named after the file, "own.pt"
  /// The file's values of the model's parameters and buffers, in the model's shapes: training starts with them
  /// (WorkerOptions).
  TensorMap initial_values = {};
  /// Parameters that the file marks as not trainable (requires_grad == False).
  std::vector<std::string> frozen = {};
  /// Notes for the user: what tracing has fixed, which outputs and parameters are left out, dropout that differs from
  /// PyTorch's.
  std::vector<std::string> notes = {};
};

/// Runs the module on random samples, in training and in evaluation, with two numbers of samples. Records which
/// operators it applies to data and parameters, and makes layers of them. Operators, and groups of operators, that a
/// layer of Trireme computes become that layer. libtorch runs the others (import/script_layer.h): they can be split if
/// a rule exists, else they are opaque. At the end the model and the module are compared on samples in evaluation.
///
/// Parameter names are the module's. If the module has several outputs, only the main one is used.
///
/// Throws user errors that name the file and, if a node is at fault, the node and its source line: no TorchScript;
/// samples on which the module fails; control flow or sizes that depend on the data; modes that compute different
/// things; random numbers other than dropout's; state other than batch norm's; samples that depend on each other;
/// operators without a gradient.
ImportedModel import_torchscript(const std::filesystem::path& file, const ImportOptions& options,
                                 const LossForOutput& loss);

}  // namespace trireme
