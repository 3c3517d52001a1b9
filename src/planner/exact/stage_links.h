// What it costs the workers of a stage to communicate: seconds of a step and of a byte over the links of their cluster.
//
// Ring formulas (comm/formulas.h), a ring as fast as its slowest link. Within a node a link is a device's own, or the
// node's (then all of the stage's devices there share it); between nodes every node has one, shared by the rings that
// pass through it.
#pragma once

#include "trireme/cluster.h"

namespace trireme {

/// Devices first .. first + count - 1 of a cluster.
struct DeviceSpan {
  int first = 0, count = 1;
  friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;
};

/// As one worker sees it while all others do likewise.
struct LinkCost {
  double latency = 0;  ///< seconds of a message
  double seconds_per_byte = 0;
};

double ring_all_reduce_seconds(const LinkCost& link, int ranks, double bytes);
/// Or of an all-gather; `bytes`: of the whole.
double ring_reduce_scatter_seconds(const LinkCost& link, int ranks, double bytes);

/// Links of the groups count / ranks that have `ranks` members `stride` apart: {1, tensor} is the tensor axis, {tensor,
/// data} the data axis.
LinkCost ring_link(const Cluster& cluster, DeviceSpan span, int stride, int ranks);
/// Of every worker with those of its block of `block` workers: all-to-all.
LinkCost exchange_link(const Cluster& cluster, DeviceSpan span, int block);
/// Of every worker of the stage with workers of the one before: over the network where the two devices at the border
/// are on different nodes.
LinkCost entry_link(const Cluster& cluster, DeviceSpan span);
/// Likewise with the one after.
LinkCost exit_link(const Cluster& cluster, DeviceSpan span);

}  // namespace trireme
