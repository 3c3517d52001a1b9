// Prepares a run of replicas: the plan of its workers, the facts that its policy needs, and checks for settings that
// the experiment must not have.
#pragma once

#include <cstdint>
#include <string>

#include "experiment/run_spec.h"
#include "trireme/plan.h"
#include "trireme/policy.h"

namespace trireme {

/// Returns with_batch_on() (experiment/run_spec.h) of a row on `devices` devices. `strategy`: not a plan file.
RunSpec with_batch_of(const RunSpec& experiment, const std::string& strategy, int devices);
/// The same for the workers of a plan. A planner's plan may have fewer than its row: use the row's where it is known.
RunSpec with_batch_of(const RunSpec& experiment, const Plan& plan);

/// Returns the experiment with the batch of all replicas together.
RunSpec whole_experiment(const RunSpec& given, const Plan& plan);

RunFacts facts_of(const Experiment& experiment, const Plan& plan);

/// Builds the plan that an update policy's text describes for `workers` workers: "local-sgd,every=16 steps". The inner
/// plan is that of the experiment's [update], or the text's last key, "inner=pipeline=2". The options of the
/// experiment's tables become part of the plan. Errors (user): those of make_policy; a number of workers that is not a
/// multiple of a replica's workers; an inner plan for another number of workers.
Plan plan_with_agreement(const std::string& strategy, const RunSpec& experiment, const Model& model, int workers);

/// Returns the number of workers of one replica of that plan.
int devices_of_replica(const std::string& strategy, const Experiment& experiment);

/// Returns the worker's number of samples in a global batch of `samples`.
int64_t share_of_worker(const Plan& plan, int64_t samples, int worker);

/// Errors (user): settings that only synchronous training supports. For example, no average of the weights over time is
/// kept: the policy alone averages weights.
void check_replicas(const RunSpec& experiment);

/// Errors (user): an inner plan that the policy does not support: its workers divide the weights, but the replicas
/// write to each other's memory.
void check_inner_plan(const Plan& plan, const UpdatePolicy& update);

/// For replicas that write to each other's memory. Errors (user): settings for links between them; GPUs.
void check_memory_is_shared(const Experiment& experiment, const std::string& strategy);

}  // namespace trireme
