// A plan of a model on a described machine, in seconds per step; and how one number is calibrated.
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

/// What is simulated; all of it outlives the calls.
struct Setting {
  const Model& model;
  const Cluster& cluster;
  int64_t batch = 1;  ///< samples of a step over all devices
  Precision precision = Precision::fp32;
  int optimizer_states = 1;            ///< tensors kept per weight
  const LayerCosts* layers = nullptr;  ///< null: the cluster's datasheets
  CollectiveLibrary library = {};
};

/// Seconds of a step in steady state. The plan's devices are the first of the cluster's.
double step_seconds(const Setting& setting, const Plan& plan);

/// Forward and backward of each node with so many samples on one device.
LayerSeconds layer_seconds(const Setting& setting, int64_t samples);

/// A plan of these degrees whose stages are balanced by the machine's seconds.
Plan balanced_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule);

/// Stages of whole blocks ("h.0", "h.1", ...), equally many in each, as Megatron has them: what stands before the first
/// block is in the first stage, what comes after the last in the last. The number of stages, chunks of an interleaved
/// schedule included, divides that of the blocks.
Plan block_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule);

/// Every block's forward is computed again in backward; `last`: also that of the last micro-batch.
void recompute_blocks(const Model& model, bool last, Plan& plan);
/// Likewise with each stage as one.
void recompute_stages(bool last, Plan& plan);

/// A file of examples/clusters, without ".cluster.toml".
Cluster example_cluster(const std::string& name);
/// The first devices of it, in as many nodes as they fill.
Cluster part_of(const Cluster& cluster, int devices);

/// The same machine with another efficiency of large operators, or another launch time, of all its kinds of devices.
Cluster with_efficiency(Cluster cluster, double share);
Cluster with_launch(Cluster cluster, double seconds);

/// The x in [low, high] at which f, which falls or rises throughout, comes to `target`; the nearer end where it does
/// not.
double solve(double low, double high, double target, const std::function<double(double)>& f);

}  // namespace trireme::validation
