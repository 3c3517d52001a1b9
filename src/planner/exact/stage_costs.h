// What one layer adds to its stage: seconds and bytes, by where the stage lies and how the layer is divided there. The
// terms from which both the step model (of a whole plan) and the search (of all) are made.
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
  bool splits_backward = false;  ///< the schedule does
  bool alone = false;            ///< the plan's only device: nobody crowds it
  friend auto operator<=>(const StageSettings&, const StageSettings&) = default;
};

/// Of one worker, the one that takes longest or holds most. Seconds are per micro-batch or per step, bytes are float so
/// that they can be scaled.
struct StageTerms {
  // per micro-batch
  double compute = 0;         ///< forward, recomputing, backward; without weight_compute
  double weight_compute = 0;  ///< the weights' part of backward where settings.splits_backward
  double communication = 0;   ///< redistributions, what layers say within their calls, activations and gradients of
                              ///< other stages, traffic of zero2 and zero3
  // per step
  double hide = 0;     ///< backward of one micro-batch, behind which a reduction hides
  double reduce = 0;   ///< of gradients; hides where the cluster overlaps
  double exposed = 0;  ///< other communication for gradients and weights
  double update = 0;
  // bytes
  double weights = 0, gradients = 0, optimizer = 0;
  double kept = 0;       ///< per micro-batch, from forward to backward
  double enters = 0;     ///< per micro-batch, what is kept if the layer's run is recomputed
  double workspace = 0;  ///< greatest need of a call

  double state() const { return weights + gradients + optimizer; }
  void add(const StageTerms& other);
};

/// One way to run a layer on a stage's workers.
struct Candidate {
  int data = 1, tensor = 1;
  const ShardingOption* option = nullptr;

  StageLayout output() const { return {tensor, option->output}; }
};

/// Of one stage's place and settings. Used by one thread.
class StageCosts {
 public:
  StageCosts(const ModelFacts& facts, const StageSettings& settings, DeviceSpan span);

  const StageSettings& settings() const { return settings_; }
  DeviceSpan span() const { return span_; }
  double memory_limit() const { return memory_limit_; }  ///< of the smallest device; 0: none

  /// All within the request's space (its tensor degrees). Empty where no data degree leaves every shard a sample. The
  /// reference stays valid.
  const std::vector<Candidate>& candidates(NodeId node) const;

  /// The layer by itself. `shared`: by group of tied parameters, whether an earlier layer of the stage has it (then it
  /// costs nothing more); where an earlier one elsewhere has it, both all-reduce what they have.
  StageTerms own(NodeId node, const Candidate& candidate, const std::vector<bool>& shared) const;
  /// Its input `i` from a layer of the stage that gives it in layout `made`, with the gradient back.
  StageTerms from_layer(NodeId node, size_t i, const Candidate& candidate, const StageLayout& made) const;
  /// Its input `i` from another stage or the batch (free), with the gradient back. The receiving stage pays for both.
  StageTerms from_outside(NodeId node, size_t i, const Candidate& candidate) const;
  /// `node`'s output is read by other stages: they get every summand of a Partial one.
  StageTerms to_outside(NodeId node, const StageLayout& made) const;

 private:
  /// Data shards that differ, with the device that counts.
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
  mutable std::map<int, Degree> degrees_;                     // by tensor degree
  mutable std::map<int, std::vector<Candidate>> candidates_;  // by layer class
  mutable std::map<std::tuple<NodeId, const ShardingOption*, std::vector<bool>>, StageTerms> own_;
};

}  // namespace trireme
