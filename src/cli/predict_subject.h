// The common input of the verbs that predict: the experiment, the shape of its data, its model, and the costs.
#pragma once

#include "data/data_spec.h"
#include "experiment/run_spec.h"
#include "forecast/predictions.h"
#include "report/progress.h"
#include "trireme/dataset.h"
#include "trireme/model.h"

namespace trireme {

/// As open_data_or_shape (data/open.h). If the data are not on this machine, prints the assumptions about them, in one
/// line on standard error.
TaskData data_to_predict(const DataSpec& spec, Progress* progress = nullptr);

/// `predictions` refers to the other members, so an object stays where it is made.
struct PredictSubject {
  /// Opens the data, builds the model and finds the source of the costs; `progress` shows the phases that last.
  /// Errors (user): those of the three.
  PredictSubject(RunSpec experiment, const CostSourceOptions& costs, Progress& progress);
  PredictSubject(const PredictSubject&) = delete;
  PredictSubject& operator=(const PredictSubject&) = delete;

  RunSpec experiment;  ///< with what was found while its model was built
  const TaskData data;
  const Model model;
  Predictions predictions;
};

}  // namespace trireme
