// Metrics that need whole outputs, or a model's own choices, and are therefore taken once, of the trained weights on
// one device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "metrics/metrics.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// Whether final_metrics has anything to say about these data.
bool has_final_metrics(const TaskData& data);

/// Classification with two classes: "auc" (metrics/auc.h), of the difference of the logits. Translation: "bleu"
/// (metrics/bleu.h) of the test sentences as the model translates them, see metrics/beam_search.h. `weights`: as
/// TrainedWeights gives them. `stop` is asked now and then; when it is true the result is empty.
std::vector<Metric> final_metrics(const Experiment& experiment, const Model& model, const TaskData& data,
                                  const TensorMap& weights, const std::function<bool()>& stop);

}  // namespace trireme
