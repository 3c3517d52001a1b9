// Describes how a plan splits each block of a model, for display.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan.h"

namespace trireme {

struct BlockStrategy {
  std::string block;  ///< the block's label (recompute_labels of plan/named.h)
  int layers = 0;
  int stage = 0;
  /// For example "data 4 x tensor 2". If the block's layers differ: all distinct strategies in layer order, "data 8,
  /// tensor 8".
  std::string strategy;
  friend bool operator==(const BlockStrategy&, const BlockStrategy&) = default;
};

/// Returns one entry per run of consecutive layers of the same block and stage, in the model's order. The plan must be
/// validated.
std::vector<BlockStrategy> block_strategies(const Plan& plan, const Model& model);

}  // namespace trireme
