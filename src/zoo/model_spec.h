// Which model of the zoo to build.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/task.h"

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

}  // namespace trireme
