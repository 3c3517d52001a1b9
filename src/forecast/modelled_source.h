// Where the modelled clock has its seconds from: the numbers of [update.virtual], a cluster file, or a profile of this
// machine.
#pragma once

#include <functional>
#include <optional>

#include "experiment/run_spec.h"
#include "trireme/model.h"
#include "trireme/plan.h"
#include "update/hub/virtual_world.h"

namespace trireme {

/// Seconds of a replica's step with so many samples, before they vary. From many threads.
using SecondsBySamples = std::function<double(int replica, int64_t samples)>;

/// Of replicas that run `plan`, replica r on the plan's devices from r times their number on. With a cluster or a
/// profile they are those of forecast/predict.h: of the program, forward, backward and update, by the devices'
/// datasheets or as layers were measured. The model outlives the result. Errors (user): a cluster with fewer devices
/// than `replicas` need, or without a speed at the precision; layers that the profile lacks.
SecondsBySamples seconds_by_samples(const RunSpec& experiment, const Model& model, const Plan& plan, int replicas);

/// The connection of each replica, of so many devices, and the server's. Of a cluster whose devices in use stand in
/// several nodes: the network, divided equally among the replicas of a node; in one node: its devices' link, where it
/// is shared divided likewise. The server's is that of a machine of its own.
VirtualLinks modelled_links(const Experiment& experiment, int replicas, int devices);

/// The same of this cluster. `server`: its connection; not set: as a replica's, undivided.
VirtualLinks links_between_replicas(const Cluster& cluster, int replicas, int devices, std::optional<LinkSpeed> server);

/// Relative speed of a device by device_speeds, from their start again where there are more devices; 1 without them.
double speed_of(const Experiment& experiment, int device);

}  // namespace trireme
