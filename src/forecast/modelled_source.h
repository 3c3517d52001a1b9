// Sources of seconds for the modelled clock: the numbers of [update.virtual], a cluster file, or a profile of this
// machine.
#pragma once

#include <functional>
#include <optional>

#include "experiment/run_spec.h"
#include "trireme/model.h"
#include "trireme/plan.h"
#include "update/hub/virtual_world.h"

namespace trireme {

/// Returns the seconds of a replica's step with `samples` samples, before variation. Thread-safe.
using SecondsBySamples = std::function<double(int replica, int64_t samples)>;

/// Returns the step seconds of replicas that run `plan`. Replica r uses the devices from r * plan.devices on. With a
/// cluster or a profile, the seconds are those of forecast/predict.h for the program (forward, backward and update),
/// from the devices' datasheets or from measured layers. The model must outlive the result. Errors (user): a cluster
/// with fewer devices than the replicas need, or without a speed at the precision; layers that the profile lacks.
SecondsBySamples seconds_by_samples(const RunSpec& experiment, const Model& model, const Plan& plan, int replicas);

/// Returns the link of each replica, of `devices` devices, and the link of the server. If the cluster's devices in use
/// are on several nodes, a replica's link is the network, divided equally among the replicas of a node. On one node, it
/// is the devices' link, divided likewise if it is shared. The server is a separate machine.
VirtualLinks modelled_links(const Experiment& experiment, int replicas, int devices);

/// As modelled_links, for this cluster. `server`: the server's link; nullopt: a replica's link, undivided.
VirtualLinks links_between_replicas(const Cluster& cluster, int replicas, int devices, std::optional<LinkSpeed> server);

/// Returns the relative speed of a device. device_speeds is repeated if there are more devices; without it, the speed
/// is 1.
double speed_of(const Experiment& experiment, int device);

}  // namespace trireme
