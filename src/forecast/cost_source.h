// Sources of predicted seconds: measurements of this machine, or the description of a machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/message_buffers.h"
#include "cost/layer_costs.h"
#include "cost/links.h"
#include "experiment/run_spec.h"
#include "profile/layer_sites.h"
#include "profile/profile.h"
#include "trireme/cluster.h"

namespace trireme {

/// Returns the experiment's settings for measuring layers.
SiteOptions site_options(const RunSpec& experiment);

/// Costs for predictions. The members belong together: links and devices of one cluster, layers of one model.
struct CostSource {
  Cluster cluster;
  std::shared_ptr<const LayerCosts> layers;
  std::shared_ptr<const Links> links;
  bool shares_memory = true;                    ///< true: workers are threads with one copy of the weights
  int64_t library_memory = 0;                   ///< MemoryOptions::library_memory
  std::optional<MessageBuffers> messages = {};  ///< MemoryOptions::messages
  double loading = 0;                           ///< seconds per sample that a worker spends on loading or copying
  /// By device: factor by which computing takes longer than `layers` say; empty: 1. For planners, the cluster's speeds
  /// must be reduced too.
  std::vector<double> slowness = {};
  double sharing = 1;  ///< factor on the layers' crowding: more workers than cores take turns (StepFactors::sharing)
  int replicas = 1;    ///< programs equal to the predicted one that compute on the same cores at the same time
};

/// Returns how many of the machine's cores, or of its GPUs, the experiment's workers would use at the same time if
/// there were enough of them (Fingerprint::places).
int places_wanted(const RunSpec& experiment, const Fingerprint& machine, int workers);

/// True if so many workers have fewer cores or GPUs together than they would use at the same time.
bool is_crowded(const RunSpec& experiment, const Fingerprint& machine, int workers);

/// Returns the name of the experiment's entry in Profile::step_factors.
std::string step_factors_name(const RunSpec& experiment, const Model& model);

/// Costs of this machine at the experiment's price, with `devices` workers. If the experiment has [cluster.link], links
/// have their speed at the start of the run. With `measures`, layers that the profile lacks are measured when their
/// costs are needed. Without it, they are user errors, and sizes beyond those measured are extrapolated. The experiment
/// and the model must outlive the result.
CostSource measured_source(const RunSpec& experiment, const Model& model, const Profile& profile, int devices,
                           bool measures = true);

/// Replaces the source's links by those of [cluster.link]. `bandwidth`: bytes/s (0: no limit); `latency`: seconds.
void emulate_links(double bandwidth, double latency, int cores, CostSource& source);

/// Costs of these devices of a described cluster, by number, in this order. Errors (user): a device that the cluster
/// does not have.
CostSource described_source(const Experiment& experiment, const Model& model, const Cluster& cluster,
                            const std::vector<int>& devices);

/// What this run's workers overlap with computing: on this machine sums of gradients, on GPUs nothing (one stream per
/// worker), and in modelled time what its machines overlap.
Overlap overlap_of(const RunSpec& experiment);

}  // namespace trireme
