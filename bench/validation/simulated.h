// Seconds per step of a plan of a model on a described machine, and the calibration of one number.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost/cluster_links.h"
#include "cost/layer_costs.h"
#include "plan/named.h"
#include "runtime/precision.h"
#include "trireme/cluster.h"

namespace trireme::validation {

/// The input of a simulation; all of it must outlive the calls.
struct Setting {
  const Model& model;
  const Cluster& cluster;
  int64_t batch = 1;  ///< samples of a step over all devices
  Precision precision = Precision::fp32;
  int optimizer_states = 1;            ///< tensors kept per weight
  const LayerCosts* layers = nullptr;  ///< null: the cluster's datasheets
  CollectiveLibrary library = {};
  int steps = 0;  ///< simulated steps; 0: as many as usual
};

/// Seconds of a step in steady state. The plan uses the cluster's first devices.
double step_seconds(const Setting& setting, const Plan& plan);

/// Seconds of forward and backward of each node with this number of samples on one device.
LayerSeconds layer_seconds(const Setting& setting, int64_t samples);

/// A plan with these degrees; its stages are balanced by the machine's seconds.
Plan balanced_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule);

/// Stages of whole blocks ("h.0", "h.1", ...), equally many in each, as in Megatron. The layers before the first block
/// are in the first stage, the layers behind the last block in the last. The number of blocks must be a multiple of the
/// number of stages, with the chunks of an interleaved schedule.
Plan block_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule);

/// Recomputes every block's forward in backward; `last`: also for the last micro-batch.
void recompute_blocks(const Model& model, bool last, Plan& plan);
/// The same, with each stage as one block.
void recompute_stages(bool last, Plan& plan);

/// Reads a file of examples/clusters; `name` is without ".cluster.toml".
Cluster example_cluster(const std::string& name);
/// The cluster's first `devices` devices, with the nodes that they fill.
Cluster part_of(const Cluster& cluster, int devices);

/// The same machine with another efficiency of large operators, or of operators bound by memory, or another launch
/// time, for all its kinds of devices.
Cluster with_efficiency(Cluster cluster, double share);
Cluster with_memory_efficiency(Cluster cluster, double share);
Cluster with_launch(Cluster cluster, double seconds);
/// The same machine with another bandwidth of a node's connection, in bytes/s.
Cluster with_network(Cluster cluster, double bandwidth);

/// A cluster of equal nodes with so many devices of them.
Cluster with_devices(Cluster cluster, int devices);

/// The x in [low, high] at which the monotonic f reaches `target`; if it does not, the nearer end.
double solve(double low, double high, double target, const std::function<double(double)>& f);

}  // namespace trireme::validation
