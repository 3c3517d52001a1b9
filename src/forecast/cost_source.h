// Where predictions have their seconds from: this machine as it was measured, or one that is described.
#pragma once

#include <memory>
#include <vector>

#include "cost/layer_costs.h"
#include "cost/links.h"
#include "experiment/run_spec.h"
#include "profile/layer_sites.h"
#include "profile/profile.h"
#include "trireme/cluster.h"

namespace trireme {

/// What the experiment says of the layers that are measured for it.
SiteOptions site_options(const RunSpec& experiment);

/// Where predictions come from. The parts belong together: links and devices of one cluster, layers of one model.
struct CostSource {
  Cluster cluster;
  std::shared_ptr<const LayerCosts> layers;
  std::shared_ptr<const Links> links;
  bool shares_memory = true;          ///< workers are threads with one copy of the weights
  double loading = 0;                 ///< seconds per sample that a worker loads or copies
  std::vector<double> slowness = {};  ///< by device: computing takes so many times as long as `layers` say; empty: as
                                      ///< they say. For planners the cluster's speeds have to say it too
};

/// This machine at the experiment's price, with `devices` workers, over the links of [cluster.link] as they are at
/// first, where the experiment has any. Layers that the profile lacks are measured when they are asked for; unless
/// `measures` they are user errors then, and sizes beyond those measured extrapolated. The experiment and the model
/// outlive the result.
CostSource measured_source(const RunSpec& experiment, const Model& model, const Profile& profile, int devices,
                           bool measures = true);

/// Links of [cluster.link] in place of the source's: bytes/s (0: no limit), seconds.
void emulate_links(double bandwidth, double latency, int cores, CostSource& source);

/// These devices of a described cluster, by number, in this order. Errors (user): it does not have them.
CostSource described_source(const Experiment& experiment, const Model& model, const Cluster& cluster,
                            const std::vector<int>& devices);

}  // namespace trireme
