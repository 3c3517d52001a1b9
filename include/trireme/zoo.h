// The named models, and models of your own beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/model.h"

namespace trireme {

/// Specifies the model to build. Every model has the inputs "data" (`sample_shape`) and "target" (`target_shape`) and
/// ends with the task's loss, named "loss".
struct ModelSpec {
  std::string name;
  Shape sample_shape;
  int64_t classes = 0;                         ///< of the data set: Dataset::classes
  std::map<std::string, double> options = {};  ///< options of the model, see model_options
  LearningTask task = LearningTask::classification;
  Shape target_shape = {};     ///< of one sample's target
  int64_t vocabulary = 0;      ///< of token ids in "data"; 0: no tokens
  double label_smoothing = 0;  ///< share of a target that is spread over all classes (Szegedy et al., 2015)
  /// Number of positions of a target with all its padding, if this model is for samples with less padding; 0: from
  /// target_shape. Losses that divide by the number of positions divide by this number, so that padding does not change
  /// them.
  int64_t padded_positions = 0;
  /// Regression: see MeanSquaredError. Affects only rounding.
  std::vector<double> target_offsets = {};
};

using ModelOptions = std::map<std::string, double>;

/// An option of a model.
struct ModelOption {
  enum class Kind {
    size,          ///< a whole number from 1 on
    size_or_none,  ///< or 0
    count,         ///< a number of layers: a whole number from 1 on, with a smaller maximum
    share,         ///< at least 0, below 1
    positive,      ///< any number above 0
    flag,          ///< 0 or 1
  };
  const char* name;
  double usual;
  Kind kind = Kind::size;
};

/// What a model is for, and what it reads.
struct ModelUse {
  std::vector<LearningTask> tasks = {LearningTask::classification, LearningTask::regression};
  bool tokens = false;  ///< "data" is token ids
};

struct NamedModel {
  const char* name;
  const char* description;  ///< one line
  /// `options` is complete: it has a value for every option of the model.
  Model (*make)(const ModelSpec& spec, const ModelOptions& options);
  std::vector<ModelOption> options = {};
  ModelUse use = {};
};

/// Adds the loss of `spec.task` as layer "loss":
/// - classification, language: SoftmaxCrossEntropy of logits [classes] or [positions, classes], with
///   spec.label_smoothing.
/// - translation: the same, with kPadding positions ignored. Every token has the same weight, in sentences of any
///   length.
/// - segmentation: PixelCrossEntropy of logits [classes, height, width].
/// - regression: MeanSquaredError of outputs [values].
/// Throws a user error for label smoothing in a task without classes over which a target could be spread, and the loss
/// layer's errors about shapes.
NodeId add_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

/// Calls add_loss and finishes the model.
Model finish_with_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

/// Builds a named model. Errors (user): an unknown name or option, with the known ones; an option's value out of its
/// range; no classes; shapes that do not fit.
Model make_model(const ModelSpec& spec);

/// Names of the built-in models, then of those that were registered.
std::vector<std::string> model_names();
/// Options of a named model with their defaults. Errors (user): an unknown name, with the known ones.
ModelOptions model_options(const std::string& name);

/// Adds a model of your own to those that an experiment's `model` may name. `model` is copied; the texts to which its
/// members point must outlive the program's use of Trireme. Call it by static initialisation or at the start of main;
/// not thread-safe. Returns true. Errors (user): the list of models has been read already. A name that exists is
/// reported when the list is read.
bool register_model(const NamedModel& model);

}  // namespace trireme
