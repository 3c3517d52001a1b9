// The demand of each instruction of a program: layer seconds from LayerCosts, transfers from Links.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <unordered_map>

#include "cost/layer_costs.h"
#include "cost/links.h"
#include "program/program.h"
#include "runtime/precision.h"
#include "trireme/cluster.h"
#include "trireme/layer.h"

namespace trireme {

struct InstructionCostOptions {
  int64_t batch = 1;  ///< samples of a step over all workers
  Precision precision = Precision::fp32;
  BatchNormScope batch_norm = BatchNormScope::local;  ///< the scope that the program was compiled with
  double loading = 0;   ///< seconds per sample that a worker loads, or copies from the worker that loaded it
  double overhead = 0;  ///< seconds of the runtime per instruction
  /// For a program with an agreement: mean seconds per step, and bytes sent per step, of the agreement.
  double agreement_seconds = 0, agreement_bytes = 0;
  /// Ranks, ascending, that represent others (representatives() in sim/simulate.h). The traffic of the represented
  /// ranks on shared links is included. Empty: each rank represents only itself.
  std::vector<int> representatives = {};
  /// By rank: factor on its compute time. The additional time does not keep a core busy. Empty: 1 for all.
  std::vector<double> slowness = {};
  double sharing = 1;  ///< factor on the layers' crowding, where more workers than cores take turns
  int replicas = 1;    ///< programs equal to this one, it included, that share its pools of cores at the same time
};

/// The cost of one instruction on one rank.
struct InstructionCost {
  Demand demand;
  double bytes_sent = 0;  ///< sent by this rank, counted as the runtime counts them
  double computing = 0;   ///< seconds that the rank computes, on a core of its own
};

/// The costs that a simulation requests. Not thread-safe.
class ProgramCosts {
 public:
  virtual ~ProgramCosts() = default;
  /// The reference lives as long as this object.
  virtual const InstructionCost& of(int rank, const Instruction& instruction) = 0;
};

/// Program, model, cluster, costs and links must outlive this object. Results are cached by what they depend on, so
/// that thousands of equal instructions need one calculation.
class InstructionCosts final : public ProgramCosts {
 public:
  InstructionCosts(const Program& program, const Model& model, const Cluster& cluster, const LayerCosts& layers,
                   const Links& links, const InstructionCostOptions& options);

  const InstructionCost& of(int rank, const Instruction& instruction) override;

  /// The worst basis of the layer seconds requested so far, except own times, and the largest extrapolation factor.
  Basis basis() const { return basis_; }
  double stretch() const { return stretch_; }
  /// The largest extrapolation factor of own times requested so far; 0: there were none.
  double own_stretch() const { return own_stretch_; }
  /// True if a layer that takes time has no own times.
  bool predicts_layers() const { return predicts_layers_; }

 private:
  using Key = std::tuple<int, OpCode, int, bool, int64_t>;  // rank, code, index, adjoint, samples of the micro-batch
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  InstructionCost compute(int rank, const Instruction& instruction, int64_t samples);
  InstructionCost segment_cost(int rank, const Instruction& instruction, int64_t samples);
  void note_basis(const LayerCost& cost, double seconds);
  LayerExchanges communication_of(const Op& op, int64_t share) const;
  void add_communication(int rank, const Op& op, const Exchange& exchange, InstructionCost& cost,
                         double& seconds) const;
  double work_of(int rank, const Exchange& exchange, std::span<const int> group) const;
  Demand demand_of(int rank, const Op& op, const Exchange& exchange, std::span<const int> group) const;
  InstructionCost redistribution_cost(int rank, const Instruction& instruction, int64_t samples);
  InstructionCost norm_cost() const;
  InstructionCost bucket_cost(int rank, const Instruction& instruction);
  Demand collectives(RedistributionKind kind, double bytes, const Bucket& bucket,
                     const std::vector<std::vector<int>>& groups) const;
  InstructionCost reduction_cost(const Bucket& bucket, double bytes, bool is_last) const;
  static double summands_of(const RedistributionEnds& ends);
  Demand gather_alone(int rank, double bytes, const Bucket& bucket) const;
  Demand gather(int rank, double bytes, const Bucket& bucket) const;
  std::vector<int> users_of(const Bucket& bucket) const;
  bool charges_for(int rank, std::span<const int> group) const;
  Demand seen_by_representatives(Demand demand) const;
  int alike(std::span<const int> group, const std::vector<int>& workers) const;
  Demand computing(int rank, double seconds, double crowding) const;
  double own_seconds(int rank, double seconds) const;
  double element_size(NodeId node, bool gradient) const;
  Shape global_shape(NodeId node, int64_t samples) const;
  bool is_differentiated(const Op& op) const { return program_.values[size_t(op.output)].needs_gradient; }

  const Program& program_;
  const Model& model_;
  const Cluster& cluster_;
  const LayerCosts& layers_;
  const Links& links_;
  const InstructionCostOptions options_;
  std::vector<int64_t> micro_batch_samples_;
  std::vector<bool> counted_;  // by pool: true if a representative uses it; empty: all pools count
  std::unordered_map<Key, InstructionCost, KeyHash> known_;
  std::map<std::pair<RedistributionId, bool>, RedistributionKind> kinds_;  // by redistribution and direction
  Basis basis_ = Basis::measured;
  double stretch_ = 1;
  double own_stretch_ = 0;
  bool predicts_layers_ = false;
};

}  // namespace trireme
