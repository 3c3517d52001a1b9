// The devices that a plan may use: those of a run on this machine, or those that a cluster file describes
// (docs/clusters.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct Device {
  int64_t memory = 0;  ///< bytes for tensors; 0: no limit
  double speed = 1;    ///< relative to the other devices
  int kind = -1;       ///< index into Cluster::kinds; -1: measured, not described
  int node = 0;
};

/// How fast a device computes at one precision.
struct DeviceSpeed {
  double peak_flops = 0;           ///< FLOP/s
  double greatest_efficiency = 1;  ///< fraction of the peak that large operators reach
  double half_work = 0;            ///< FLOPs of an operator that reaches half of greatest_efficiency
};

/// What a device can do, from its datasheet and a few fitted numbers. An operator of w FLOPs that touches b bytes takes
///    max(launch, start + max(w / (peak_flops * efficiency(w)), b / (memory_bandwidth * memory_efficiency))),
///    efficiency(w) = greatest_efficiency * w / (w + half_work).
/// This is an approximation: each output that shows a number from it must say so.
struct DeviceKind {
  std::string name;                           ///< "V100"
  std::map<std::string, DeviceSpeed> speeds;  ///< by precision: "fp32", "bf16", "fp64"
  double memory_bandwidth = 0;                ///< bytes/s
  double memory_efficiency = 1;               ///< share of memory_bandwidth that operators bound by memory reach
  int64_t memory = 0;                         ///< bytes
  /// The part of `memory` that the driver, libraries and their buffers take; tensors cannot use it. Bytes.
  int64_t reserved = 0;
  /// The allocator's own bytes (rounding, fragments), as a share of the bytes of activations and buffers: tensors that
  /// are allocated and released within a step.
  double allocator_overhead = 0;
  double launch = 0;  ///< seconds of the host per operator: the device runs operators no faster than the host asks
  /// Seconds of the device per operator, in addition to its work. Not set: `launch`, which is then added to every
  /// operator.
  std::optional<double> start = {};
  /// Share of the peak that attention reaches in kernels that store no scores (FlashAttention). 0: there are none.
  double fused_attention = 0;
  std::string source;

  /// Returns the bytes of `tensors` bytes of tensors and of the allocator's overhead for them. `changing`: the bytes of
  /// those tensors that are allocated and released within a step. `overhead`: factor on allocator_overhead.
  int64_t taken_by(int64_t tensors, int64_t changing, double overhead = 1) const {
    return tensors + int64_t(overhead * allocator_overhead * double(changing));
  }
  /// Returns the bytes for tensors and the allocator's overhead, which is the value of Device::memory.
  int64_t for_tensors() const { return memory - reserved; }
};

/// A connection. Transfers in opposite directions do not slow each other down.
struct Link {
  double bandwidth = 0;  ///< bytes/s in each direction; 0: transfers take no time
  double latency = 0;    ///< seconds of an empty message
  bool shared = false;   ///< true: all devices of a node share it (PCIe through the host); false: one per device
};

/// How the network between nodes is built.
struct Fabric {
  /// Adapters of a node, which share its bandwidth equally. Device i of a node uses adapter i modulo `rails`, so that
  /// one device alone has only one adapter's share.
  int rails = 1;
  int nodes_per_switch = 0;     ///< nodes below one switch, in the order of the cluster; 0: all
  double oversubscription = 1;  ///< bandwidth of a switch's nodes over that of its connection to other switches
};

struct ClusterNode {
  Link link;                  ///< the link between the node's devices
  double price_per_hour = 0;  ///< 0: not known
  std::string instance = {};  ///< "p3.16xlarge"; may be empty
};

/// The origin of a cluster's prices. They are a snapshot and are never looked up online.
struct PriceTag {
  std::string currency = "USD";
  std::string date;  ///< ISO 8601
  std::string source;
};

/// Which communication a device overlaps with computing.
enum class Overlap {
  nothing,   ///< computing and communication alternate
  sums,      ///< sums of gradients: threads with emulated links
  messages,  ///< also messages, which the system sends: processes
  all        ///< also weight gathers (GPUs with streams)
};

/// How the collectives of several devices are organised.
enum class Collectives {
  mpi,  ///< the better of ring and halving and doubling, in one or two levels (Thakur et al., 2005)
  nccl  ///< rings, and trees over nodes for all-reduces where they are faster
};

struct Cluster {
  std::string name;
  std::string description;
  std::vector<Device> devices;    ///< in the order of the nodes
  std::vector<DeviceKind> kinds;  ///< empty for the devices of this machine
  std::vector<ClusterNode> nodes;
  Link network;  ///< between nodes: each node has one such connection, which its devices share
  Fabric fabric;
  Collectives collectives = Collectives::mpi;
  Overlap overlap = Overlap::all;
  double compute_slowdown = 1;   ///< factor on computing time while the device communicates
  double transfer_slowdown = 1;  ///< factor on communication time while the device computes
  PriceTag price;

  int size() const { return int(devices.size()); }
  static Cluster uniform(int devices, int64_t memory = 0) {
    Cluster cluster;
    cluster.devices.assign(size_t(devices), Device{.memory = memory});
    return cluster;
  }
};

/// Reads a cluster file (*.cluster.toml, docs/clusters.md). Devices are numbered node by node, in the order of the
/// file. Errors (user): file, line, key, value, reason and what to do.
Cluster read_cluster(const std::filesystem::path& path);

}  // namespace trireme
