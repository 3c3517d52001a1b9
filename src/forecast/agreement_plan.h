// What a run of replicas is made of, before it runs: the plans of its workers, what its policy is told, what its
// experiment must not ask for.
#pragma once

#include <cstdint>
#include <string>

#include "experiment/run_spec.h"
#include "trireme/plan.h"
#include "trireme/policy.h"
#include "trireme/run_facts.h"

namespace trireme {

/// With the batch of all replicas together.
RunSpec whole_experiment(RunSpec experiment, const Plan& plan);

RunFacts facts_of(const Experiment& experiment, const Plan& plan);

/// The plan that an update policy's text asks for on so many workers: "local-sgd,every=16 steps", the inner plan as the
/// experiment's [update] says or as the last key, "inner=pipeline=2". The options of the experiment's tables become
/// part of the plan. Errors (user): those of make_policy; workers that are no whole number of replicas; an inner plan
/// for another number of workers.
Plan plan_with_agreement(const std::string& strategy, const RunSpec& experiment, const Model& model, int workers);

/// Workers of one replica of that plan.
int devices_of_replica(const std::string& strategy, const Experiment& experiment);

/// A worker's share of the batch of all.
int64_t share_of_worker(const Plan& plan, int64_t samples, int worker);

/// Errors (user): what only synchronous training does. The policy's result is the raw weights: there is one answer to
/// who averages them.
void check_replicas(const RunSpec& experiment);

/// Errors (user): an inner plan that the policy cannot have: one whose workers divide the weights, where replicas write
/// to each other's memory.
void check_inner_plan(const Plan& plan, const UpdatePolicy& update);

/// Of replicas that write to each other's memory. Errors (user): links between them.
void check_memory_is_shared(const Experiment& experiment, const std::string& strategy);

}  // namespace trireme
