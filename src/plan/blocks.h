// What each block of a model got under a plan, for people to read.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan.h"

namespace trireme {

struct BlockStrategy {
  std::string block;  ///< its label (recompute_labels of plan/named.h)
  int layers = 0;
  int stage = 0;
  std::string strategy;  ///< "data 4 x tensor 2"; where its layers differ all that occur, "data 8, tensor 8", in the
                         ///< layers' order
  friend bool operator==(const BlockStrategy&, const BlockStrategy&) = default;
};

/// In the model's order; a block that a stage's border cuts is there once for each part. Needs a validated plan.
std::vector<BlockStrategy> block_strategies(const Plan& plan, const Model& model);

}  // namespace trireme
