// The plans that the exact planner is compared with: adaptive per block (ASA), and the best uniform plan.
//
// ASA (Baligodugula and Amsaad, "Optimizing Distributed Training Approaches for Scaling Neural Networks", arXiv
// 2503.23186, 2025) chooses a strategy per component of a network by profiled times, computation plus communication,
// subject to memory. The paper's equations and algorithm listing were not available: this implementation is a
// RECONSTRUCTION from those properties.
#pragma once

#include <optional>
#include <vector>

#include "planner/exact/find_plan.h"

namespace trireme {

/// RECONSTRUCTION of ASA. All devices form one stage. A block's (recompute_labels of plan/named.h) strategies are the
/// (data x tensor) meshes of that stage, with the splits of choose_splits. The search starts with the best uniform plan
/// and visits the blocks in turn until none changes. Each block gets the strategy of least step time that fits in
/// memory; the step time includes the redistribution of its input and output. One micro-batch, no optimizer sharding,
/// no recomputation. Of the request only model, cluster, costs, batch and bytes are used. Deterministic. Returns
/// nullopt if no such plan fits.
std::optional<RatedPlan> plan_asa(const PlanRequest& request);

/// Returns the fastest plan in which all layers have the same data and tensor degrees over all devices
/// ("hybrid-static"; pure data and pure tensor parallelism are included). Returns nullopt if none fits.
std::optional<RatedPlan> plan_hybrid_static(const PlanRequest& request);

/// Returns the results of both functions, without those that do not fit. Faster than two separate calls, because the
/// search for uniform plans runs once.
std::vector<RatedPlan> plan_hybrid_static_and_asa(const PlanRequest& request);

}  // namespace trireme
