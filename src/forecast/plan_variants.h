// Variants of a plan that a search found: those that the search leaves out.
#pragma once

#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns the plan with each schedule that splits backward, with optimizer sharding zero1, and with sharding inside
/// nodes of `per_node` devices (Plan::sharding_group; 0: no such plans). Under a schedule that goes there and back
/// (Schedule::v_shaped) a pipeline of equal stages is cut again, into twice as many, by `seconds`: of forward plus
/// backward of each layer; a plan of one stage needs none. The result may contain plans that do not suit the model or
/// its micro-batches.
std::vector<Plan> variants_of(const Plan& plan, const Model& model, const LayerSeconds& seconds, int per_node);

}  // namespace trireme
