// The contribution of one layer to its stage: seconds and bytes, depending on the stage's devices and the layer's
// division. Both the step model (of one plan) and the search (over all plans) are computed from these terms.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "planner/exact/model_facts.h"
#include "planner/exact/redistribution_costs.h"

namespace trireme {

/// What all stages of a plan have in common.
struct StageSettings {
  int micro_batches = 1;
  OptimizerSharding sharding = OptimizerSharding::none;
  bool recompute = false;
  bool splits_backward = false;  ///< the schedule splits backward
  bool alone = false;            ///< the plan uses only one device: no crowding
  friend auto operator<=>(const StageSettings&, const StageSettings&) = default;
};

/// Of the worker that takes longest or needs most. Seconds are per micro-batch or per step. Bytes are double, so that
/// they can be scaled.
struct StageTerms {
  // per micro-batch
  double compute = 0;         ///< forward, recomputation and backward, without weight_compute
  double weight_compute = 0;  ///< the weights' part of backward, if settings.splits_backward
  double communication = 0;   ///< redistributions, communication inside layer calls, activations and gradients from
                              ///< other stages, traffic of zero2 and zero3
  double scatter = 0;  ///< the part of that traffic that reduces gradients; overlap() moves it to `communication`
  // per step
  double hide = 0;     ///< backward of one micro-batch, which can hide a reduction
  double reduce = 0;   ///< reduction of gradients; hidden if the cluster overlaps
  double exposed = 0;  ///< other communication for gradients and weights
  double update = 0;
  // bytes
  double weights = 0, gradients = 0, optimizer = 0;
  double kept = 0;       ///< per micro-batch, retained from forward to backward
  double enters = 0;     ///< per micro-batch, retained if the layer's run is recomputed
  double workspace = 0;  ///< largest need of a call

  double state() const { return weights + gradients + optimizer; }
  void add(const StageTerms& other);
};

/// One way to divide a layer over a stage's workers.
struct Candidate {
  int data = 1, tensor = 1;
  const ShardingOption* option = nullptr;

  StageLayout output() const { return {tensor, option->output}; }
};

/// The costs on one device span with given settings. Not thread-safe.
class StageCosts {
 public:
  StageCosts(const ModelFacts& facts, const StageSettings& settings, DeviceSpan span);

  const StageSettings& settings() const { return settings_; }
  DeviceSpan span() const { return span_; }
  double memory_limit() const { return memory_limit_; }  ///< of the smallest device; 0: none

  /// All candidates within the request's space (its tensor degrees). Empty if no data degree leaves each shard a
  /// sample. The reference remains valid.
  const std::vector<Candidate>& candidates(NodeId node) const;

  /// The terms of the layer itself. `shared`: by group of tied parameters, true if an earlier layer of the stage has
  /// it; then it costs nothing more. If an earlier layer of another stage has it, both stages all-reduce their
  /// gradients.
  StageTerms own(NodeId node, const Candidate& candidate, const std::vector<bool>& shared) const;
  /// Redistribution of input `i`, which a layer of the same stage produces in layout `made`, and of its gradient back.
  StageTerms from_layer(NodeId node, size_t i, const Candidate& candidate, const StageLayout& made) const;
  /// Transfer of input `i` from another stage, and of its gradient back; the batch is free. The receiving stage is
  /// charged for both.
  StageTerms from_outside(NodeId node, size_t i, const Candidate& candidate) const;
  /// The cost of sending `node`'s output to the other stages that read it. They receive every summand of a Partial
  /// output.
  StageTerms to_outside(NodeId node, const StageLayout& made) const;

 private:
  /// The distinct data shards, each with the device that determines its time.
  struct Shard {
    int64_t samples = 0;
    int kind = -1;
    double speed = 1;
    friend auto operator<=>(const Shard&, const Shard&) = default;
  };
  struct Degree {
    bool fits = false;
    int64_t samples = 0;  ///< of the largest shard
    std::vector<Shard> shards;
  };
  struct Bytes {
    double weight, gradient, state;
  };
  const Degree& degree(int tensor) const;
  Degree make_degree(int tensor) const;
  Bytes bytes_per_element() const;
  double region(NodeId value, int tensor, const Placement& placement) const;
  void add_seconds(NodeId node, const Candidate& candidate, StageTerms& terms) const;
  double communication_seconds(NodeId node, const Candidate& candidate) const;
  void add_parameter(double elements, const Candidate& candidate, size_t index, bool elsewhere,
                     StageTerms& terms) const;
  void add_traffic(const LinkCost& ring, int holders, double elements, StageTerms& terms) const;
  void overlap(StageTerms& terms) const;
  void add_entering(NodeId node, size_t i, double bytes, bool outside, StageTerms& terms) const;

  const ModelFacts& facts_;
  const Cluster& cluster_;
  const StageSettings settings_;
  const DeviceSpan span_;
  RedistributionCosts redistribution_costs_;
  LinkCost entry_, exit_;
  const int most_tensor_;  ///< of candidates
  double memory_limit_ = 0;
  double activation_room_ = 1;             // allocator's bytes per byte of activations and buffers (DeviceKind)
  mutable std::map<int, Degree> degrees_;  // by tensor degree
  mutable std::map<int, std::vector<Candidate>> candidates_;  // by layer class
  mutable std::map<std::tuple<NodeId, const ShardingOption*, std::vector<bool>>, StageTerms> own_;
};

}  // namespace trireme
