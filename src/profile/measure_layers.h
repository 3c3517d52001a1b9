// Measures layers one by one, without a program.
//
// A step touches much memory between two calls of one layer, and what a layer reads was written just before by the
// layer in front of it. So the layers take turns in the order of the model, forward and then backward, round after
// round; inputs are written anew before each call, outside the time that counts.
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

/// How often. A machine that others use too is now fast, now slow, for seconds at a time: rounds alone and rounds with
/// every core running the same take turns in passes, and a layer's fastest pass counts, its own for either kind of
/// round.
struct Repetitions {
  int passes = 3;
  int most = 5;                     ///< rounds of whole backwards in a pass
  double seconds_per_layer = 0.02;  ///< as many of them, at least one, as take so long
  int split = 2;                    ///< passes that begin with a round of backwards in two parts
  bool crowded = true;              ///< rounds with every core running the same
};

/// In the order of `requests`, which should be that of the model. Starts threads of its own, with `threads` for each
/// one's operators; installs memory accounting. Errors (run): what layers throw.
std::vector<LayerMeasurement> measure_layers(const LayerSites& sites, const std::vector<LayerRequest>& requests,
                                             const Repetitions& repetitions = {}, int threads = 1);

/// Every node under every option at the degrees in `tensors`, with `samples`: equal ones once, the first in the model's
/// order.
std::vector<LayerRequest> requests_for(const LayerSites& sites, const std::vector<int>& tensors, int64_t samples);

/// The same work under a name that does not speak of the tensor axis: of degree 1 where every worker computes
/// everything.
ProbeSetting setting_of(const LayerSites& sites, const LayerRequest& request);

}  // namespace trireme
