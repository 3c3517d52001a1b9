// Plans that the exact planner is compared with: adaptive per block, and the best uniform one.
//
// ASA (Baligodugula and Amsaad, "Optimizing Distributed Training Approaches for Scaling Neural Networks", arXiv
// 2503.23186, 2025) chooses a strategy per component of a network by profiled times, computing plus communicating,
// subject to memory. The paper's equations and its algorithm listing were not at hand: what stands here is a
// RECONSTRUCTION of them from those properties.
#pragma once

#include <optional>

#include "planner/exact/find_plan.h"

namespace trireme {

/// RECONSTRUCTION of ASA. All devices are one stage; a block's (recompute_labels of plan/named.h) strategies are the
/// (data x tensor) meshes of it, with the splits of choose_splits. Begins with the best uniform plan and takes the
/// blocks in turn, again and again until none changes: each gets the strategy of least step time, what it costs to lay
/// its input and output out anew included, that fits in memory. One micro-batch, nothing sharded or recomputed; of the
/// request only model, cluster, costs, batch and bytes count. The same request gives the same plan. nullopt: no such
/// plan fits.
std::optional<RatedPlan> plan_asa(const PlanRequest& request);

/// The fastest of the plans in which all layers have the same data and tensor degrees over all devices
/// ("hybrid-static"; data and tensor parallel alone are among them). nullopt: none fits.
std::optional<RatedPlan> plan_hybrid_static(const PlanRequest& request);

}  // namespace trireme
