// Specifies which model of the zoo to build.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/task.h"

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

}  // namespace trireme
