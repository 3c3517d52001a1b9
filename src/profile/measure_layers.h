// Measures layers one by one, without a program.
//
// In a step, much memory is used between two calls of one layer, and a layer's inputs were written just before by the
// previous layer. Therefore the layers alternate in the order of the model, forward and then backward, in rounds.
// Inputs are rewritten before each call, outside the measured time. On a GPU the times come from its events: a call
// lasts from the end of the previous work to the end of its own. That includes the time for which the GPU waits until
// the host has launched the call's kernels.
#pragma once

#include <vector>

#include "profile/layer_sites.h"
#include "profile/probe_call.h"
#include "profile/profile.h"

namespace trireme {

struct LayerRequest {
  NodeId node = -1;
  ShardingOption option;
  int tensor = 1;
  int64_t samples = 1;
};

/// The number of repetitions. A shared machine is fast or slow for seconds at a time. Therefore rounds alone and rounds
/// with every core busy alternate in passes. The fastest pass of each layer is used, separately for both kinds of
/// round.
struct Repetitions {
  int passes = 3;
  int most = 5;                     ///< most rounds of unsplit backwards in a pass
  double seconds_per_layer = 0.02;  ///< a pass has as many rounds as fit into this time, at least one
  int split = 2;                    ///< number of passes that start with a round of split backwards
  bool crowded = true;              ///< also measure rounds in which every core runs the same
};

/// Returns measurements in the order of `requests`, which should be that of the model. Starts threads of its own, each
/// with `threads` intra-op threads, on cores or on the GPUs that they are placed on. Installs memory accounting.
/// `core_seconds`: the seconds of a call are those that it would take at this speed of the cores
/// (base/devices/core_speed.h), which is measured between calls; 0: as they were measured. Throws the run errors of
/// layers.
std::vector<LayerMeasurement> measure_layers(const LayerSites& sites, const std::vector<LayerRequest>& requests,
                                             const Repetitions& repetitions = {}, int threads = 1,
                                             double core_seconds = 0);

/// Returns the greatest number of samples at which each layer's call, its tensors and their gradients, fits into the
/// memory that measurements may use; at least 1.
int64_t most_samples_to_measure(const LayerSites& sites);

/// All nodes under all options at the degrees in `tensors`, with `samples` samples. Of requests with equal keys, only
/// the first in the model's order.
std::vector<LayerRequest> requests_for(const LayerSites& sites, const std::vector<int>& tensors, int64_t samples);

/// The probe setting of a request. Degree 1 if each worker computes the whole layer, so that equal work has equal
/// settings.
ProbeSetting setting_of(const LayerSites& sites, const LayerRequest& request);

}  // namespace trireme
