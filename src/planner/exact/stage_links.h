// Communication costs of a stage's workers: seconds per message and per byte on the links of their cluster.
//
// Ring formulas are those of comm/formulas.h; a ring is as fast as its slowest link. Within a node, a link belongs to a
// device or to the node. If it belongs to the node, all of the stage's devices there share it. Between nodes, each node
// has one link, which the rings that pass through it share.
#pragma once

#include "trireme/cluster.h"

namespace trireme {

/// Devices first .. first + count - 1 of a cluster.
struct DeviceSpan {
  int first = 0, count = 1;
  friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;
};

/// The cost that one worker sees while all others communicate in the same way.
struct LinkCost {
  double latency = 0;  ///< seconds per message
  double seconds_per_byte = 0;
};

double ring_all_reduce_seconds(const LinkCost& link, int ranks, double bytes);
/// Also of an all-gather. `bytes`: of the whole tensor.
double ring_reduce_scatter_seconds(const LinkCost& link, int ranks, double bytes);

/// The link of the groups of `ranks` members that are `stride` apart: {1, tensor} is the tensor axis, {tensor, data}
/// the data axis.
LinkCost ring_link(const Cluster& cluster, DeviceSpan span, int stride, int ranks);
/// The link of each worker to the workers of its block of `block` workers: all-to-all.
LinkCost exchange_link(const Cluster& cluster, DeviceSpan span, int block);
/// The link of each worker of the stage to the workers of the previous stage. It is the network if the two devices at
/// the border are on different nodes.
LinkCost entry_link(const Cluster& cluster, DeviceSpan span);
/// The same to the next stage.
LinkCost exit_link(const Cluster& cluster, DeviceSpan span);

}  // namespace trireme
