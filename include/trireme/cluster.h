// The devices that a plan may use: what a run on this machine has, or what a cluster file describes
// (plan/cluster_file.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme {

struct Device {
  int64_t memory = 0;  ///< bytes for tensors; 0: no limit
  double speed = 1;    ///< relative to the others
  int kind = -1;       ///< index into Cluster::kinds; -1: measured, not described
  int node = 0;
};

/// How fast a device computes at one precision.
struct DeviceSpeed {
  double peak_flops = 0;           ///< FLOP/s
  double greatest_efficiency = 1;  ///< of the peak, for large operators
  double half_work = 0;            ///< FLOPs of an operator that reaches half of that
};

/// What a device can do, from its datasheet and a few fitted numbers. An operator of w FLOPs that touches b bytes takes
///   launch + max(w / (peak_flops * efficiency(w)), b / memory_bandwidth),  efficiency(w) = greatest_efficiency * w /
///   (w + half_work).
/// An approximation: whoever shows a number that comes from it says so.
struct DeviceKind {
  std::string name;                           ///< "V100"
  std::map<std::string, DeviceSpeed> speeds;  ///< by precision: "fp32", "bf16", "fp64"
  double memory_bandwidth = 0;                ///< bytes/s
  int64_t memory = 0;                         ///< bytes
  double launch = 0;                          ///< seconds that an operator takes however small it is
  std::string source;
};

/// A connection. Transfers in opposite directions do not disturb each other.
struct Link {
  double bandwidth = 0;  ///< bytes/s in each direction; 0: free
  double latency = 0;    ///< seconds of a message without bytes
  bool shared = false;   ///< one for all devices of a node (PCIe through the host); else every device has its own
};

struct ClusterNode {
  Link link;                  ///< between its devices
  double price_per_hour = 0;  ///< 0: not known
  std::string instance = {};  ///< "p3.16xlarge"; may be empty
};

/// Snapshot of what renting costs; nothing is looked up.
struct PriceTag {
  std::string currency = "USD";
  std::string date;  ///< ISO 8601
  std::string source;
};

/// What a device communicates while it computes.
enum class Overlap {
  nothing,  ///< one after the other
  sums,     ///< gradients that all holders need whole are summed meanwhile: processes and threads of this machine
  all       ///< also weights are gathered and messages sent (GPUs with streams)
};

struct Cluster {
  std::string name;
  std::string description;
  std::vector<Device> devices;    ///< node by node
  std::vector<DeviceKind> kinds;  ///< none for devices of this machine
  std::vector<ClusterNode> nodes;
  Link network;  ///< between nodes: every node has one such connection, which its devices share
  Overlap overlap = Overlap::all;
  double compute_slowdown = 1;   ///< of computing while the device communicates
  double transfer_slowdown = 1;  ///< of communicating while the device computes
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
