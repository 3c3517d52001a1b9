// Metrics that need whole outputs or a model's own choices. They are therefore computed once, with the trained weights
// on one device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "metrics/metrics.h"
#include "trireme/model.h"

namespace trireme {

/// True if final_metrics supports these data.
bool has_final_metrics(const TaskData& data);

/// Classification with two classes: "auc" (metrics/auc.h) of the difference of the logits. Translation: "bleu"
/// (metrics/bleu.h) of the model's translations of the test sentences, see metrics/beam_search.h. `weights`: from
/// TrainedWeights. `stop` is called from time to time; if it returns true, the result is empty.
std::vector<Metric> final_metrics(const Experiment& experiment, const Model& model, const TaskData& data,
                                  const TensorMap& weights, const std::function<bool()>& stop);

}  // namespace trireme
