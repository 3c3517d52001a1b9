// What a run of replicas is made of, before it runs: the plans of its workers, what its policy is told, what its experiment must not ask for.
#pragma once

#include <cstdint>
#include <string>

#include "experiment/experiment.h"
#include "plan/plan.h"
#include "program/compile.h"
#include "update/run_facts.h"
#include "update/synchronous.h"

namespace trireme {

/// With the batch of all replicas together.
Experiment whole_experiment(Experiment experiment, int workers);

RunFacts facts_of(const Experiment& experiment, int workers);

/// Errors (user): workers that are no whole number of replicas, a plan for another number of workers.
Plan plan_of_replica(const Experiment& experiment, const Model& model, int workers);

/// The workers of synchronous training: a data axis, with shares by speed where the policy says so. Errors (user).
Plan plan_of_workers(const Experiment& experiment, const Model& model, const SynchronousOptions& options, int workers);

/// A worker's share of the batch of all.
int64_t share_of_worker(const Plan& plan, int64_t samples, int worker);

CompileOptions replica_compile_options(const Experiment& experiment, bool training);

/// Errors (user): what only synchronous training does. The policy's result is the raw weights: there is one answer to who averages them.
void check_replicas(const Experiment& experiment);

/// Of replicas that write to each other's memory. Errors (user): links between them.
void check_memory_is_shared(const Experiment& experiment, const std::string& strategy);

}  // namespace trireme
