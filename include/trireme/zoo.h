// The named models, and models of your own beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/task.h"

namespace trireme {

/// Which model to build. All take inputs "data" (`sample_shape`) and "target" (`target_shape`) and end in the task's
/// loss, named "loss".
struct ModelSpec {
  std::string name;
  Shape sample_shape;
  int64_t classes = 0;                         ///< of the data set: Dataset::classes
  std::map<std::string, double> options = {};  ///< a model's own knobs, see model_options
  LearningTask task = LearningTask::classification;
  Shape target_shape = {};     ///< of one sample's target
  int64_t vocabulary = 0;      ///< of token ids in "data"; 0: no tokens
  double label_smoothing = 0;  ///< share of a target that is spread over all classes (Szegedy et al., 2015)
  /// Positions of a target with all its padding, where this model is for samples with less; 0: target_shape's. Losses
  /// that divide by positions divide by these, so that padding makes no difference.
  int64_t padded_positions = 0;
  std::vector<double> target_offsets = {};  ///< regression: see MeanSquaredError; makes no difference but to rounding
};

using ModelOptions = std::map<std::string, double>;

/// A model's own knob.
struct ModelOption {
  enum class Kind {
    size,          ///< a whole number from 1 on
    size_or_none,  ///< or 0
    count,         ///< of layers: a whole number from 1 on, not as large
    share,         ///< at least 0, below 1
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
  /// `options` is complete: every option of the model has a value.
  Model (*make)(const ModelSpec& spec, const ModelOptions& options);
  std::vector<ModelOption> options = {};
  ModelUse use = {};
};

/// Builds a named model. Errors (user): unknown names or options, with the known ones; shapes that do not fit.
Model make_model(const ModelSpec& spec);

std::vector<std::string> model_names();
/// Options of a named model with their defaults.
ModelOptions model_options(const std::string& name);

/// Adds a model of your own to those that an experiment's `model` names. By static initialisation or at the start of
/// main. Returns true. Errors (user): the models have been listed already; when they are listed, also a name that
/// exists.
bool register_model(const NamedModel& model);

}  // namespace trireme
