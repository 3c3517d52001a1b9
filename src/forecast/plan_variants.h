// Variants of a plan that a search has found, of kinds that the search itself leaves out.
#pragma once

#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// Facts from which variants are made.
struct VariantFacts {
  LayerSeconds seconds = {};      ///< of forward plus backward of each layer; a plan of one stage needs none
  std::vector<NodeId> cuts = {};  ///< first layers of the units between which stages may be cut, ascending
  int per_node = 0;               ///< devices of each node; 0: nodes differ
};

/// Returns the plan with each schedule that splits backward, with optimizer sharding zero1, and with sharding inside
/// nodes (Plan::sharding_group). For a v-shaped schedule (Schedule::v_shaped), a pipeline of equal stages is cut again,
/// into twice as many stages. The result may contain plans that are invalid for the model or its micro-batches.
std::vector<Plan> variants_of(const Plan& plan, const Model& model, const VariantFacts& facts);

}  // namespace trireme
