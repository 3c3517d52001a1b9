// Costs for tests.
#pragma once

#include <functional>
#include <map>

#include "cost/instruction_costs.h"

namespace trireme::test_support {

/// A function gives the seconds of each instruction.
class MadeUpCosts final : public ProgramCosts {
 public:
  using Seconds = std::function<double(int rank, const Instruction&)>;
  explicit MadeUpCosts(Seconds seconds) : seconds_(std::move(seconds)) {}
  const InstructionCost& of(int rank, const Instruction& i) override {
    const auto key = std::tuple(rank, i.code, i.index, i.adjoint, i.micro_batch);
    return known_.try_emplace(key, InstructionCost{{seconds_(rank, i), {}}, 0}).first->second;
  }

 private:
  Seconds seconds_;
  std::map<std::tuple<int, OpCode, int, bool, int>, InstructionCost> known_;
};

/// Nothing is shared; transfers take the seconds of their instructions.
class FreeLinks final : public Links {
 public:
  explicit FreeLinks(Overlap overlap = Overlap::nothing) : overlap_(overlap) {}
  const std::vector<Pool>& pools() const override { return pools_; }
  Demand collective(RedistributionKind, double, std::span<const int>, int) const override { return {}; }
  Demand giving(double, std::span<const int>, int, int) const override { return {}; }
  Demand message(int, int, double, int) const override { return {}; }
  bool receiver_moves() const override { return false; }
  int cores_of(int) const override { return -1; }
  Overlap overlap() const override { return overlap_; }

 private:
  const Overlap overlap_;
  const std::vector<Pool> pools_;
};

/// Seconds in proportion to FLOPs; backward takes twice the forward.
class FlopCosts final : public LayerCosts {
 public:
  FlopCosts(const Model& model, double flops_per_second) : model_(model), speed_(flops_per_second) {}
  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples, int) const override {
    const double divided = option.divides_work ? tensor : 1;
    const double forward =
        model_.node(node).layer->forward_flops(model_.input_shapes(node)) * double(samples) / divided / speed_;
    LayerCost cost;
    cost.forward = forward;
    cost.backward = 2 * forward;
    cost.backward_input = cost.backward_weight = forward;
    return cost;
  }
  LayerMemory memory(NodeId, const ShardingOption&, int, int64_t) const override { return {}; }
  double update_seconds(int64_t elements, int contributors, int) const override {
    return 1e-9 * double(elements) * (2 + contributors);
  }

 private:
  const Model& model_;
  const double speed_;
};

}  // namespace trireme::test_support
