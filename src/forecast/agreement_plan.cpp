#include "forecast/agreement_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiment/make_plan.h"
#include "experiment/run_device.h"
#include "forecast/modelled_source.h"
#include "plan/named.h"
#include "plan/strategies.h"
#include "plan/strategy.h"
#include "runtime/local_parts_of.h"
#include "schedule/kinds.h"
#include "trireme/error.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

bool is_plain_sgd(const OptimizerConfig& optimizer) { return optimizer.kind == &kSgd && optimizer.momentum == 0; }

constexpr const char* kInner = ",inner=";

/// Returns the plan of synchronous training: a data axis over all workers, with shares by speed if the policy says so.
Plan plan_of_workers(const RunSpec& experiment, const Model& model, const SynchronousOptions& options, int workers) {
  const ReplicaSpec& spec = experiment.replicas;
  if (!spec.clock)
    fail_user({"strategy synchronous", "without [update.virtual]", "in real time it is the same as the plan data",
               "use data, or add [update.virtual]"});
  if (spec.plan != single_strategy() || spec.devices != 1)
    fail_user({spec.where, fmt::format("plan = \"{}\", plan_devices = {}", spec.plan, spec.devices),
               "synchronous averages the gradients of single devices", "leave them out"});
  if (options.shares_by_speed && spec.shares != SampleShares::batches)
    fail_user({spec.where, fmt::format("shares = \"{}\"", name_of(spec.shares)),
               "workers with samples of their own take equal shares of a batch",
               "leave out synchronous's shares=speed"});
  Cluster cluster = Cluster::uniform(workers);
  if (options.shares_by_speed) {
    const int64_t equal = std::max<int64_t>(1, experiment.batch / workers);
    const Plan single = single_plan(model, equal);
    const SecondsBySamples seconds = seconds_by_samples(experiment, model, single, workers);
    double least = seconds(0, equal);
    for (int d = 1; d < workers; ++d) least = std::min(least, seconds(d, equal));
    for (int d = 0; d < workers; ++d) cluster.devices[size_t(d)].speed = least / seconds(d, equal);
  }
  Plan plan = named_plan(usual_strategy(), model, cluster, experiment.batch, {});
  validate(plan, model, experiment.batch, "strategy synchronous");
  return plan;
}

/// `inner`: a strategy or a plan file; `devices`: workers of one replica.
Plan plan_of_replica(const RunSpec& experiment, const Model& model, const std::string& inner, int devices,
                     int workers) {
  const std::string& where = experiment.replicas.where;
  if (workers % devices != 0)
    fail_user({where, fmt::format("plan_devices = {}", devices),
               fmt::format("{} workers are not a whole number of replicas", workers), "use a multiple"});
  RunSpec one = experiment;
  one.batch = std::max<int64_t>(1, experiment.batch / (workers / devices));
  Plan plan = make_plan(inner, one, model, devices);
  if (plan.devices != devices && inner != single_strategy())
    fail_user({where, fmt::format("plan = \"{}\"", inner), fmt::format("is for {} workers", plan.devices),
               fmt::format("write plan_devices = {}", plan.devices)});
  if (plan.compression.kind != Compression::Kind::none && plan.optimizer_sharding == OptimizerSharding::none)
    fail_user({where, "plan " + inner,
               "each of its workers has the whole weights and moments; an update policy reads and writes one copy, "
               "shared or divided",
               "choose a plan without compression, or one with zero1, zero2 or zero3"});
  if (!find_schedule(plan.schedule, "plan " + inner).flushes)
    fail_user({where, "plan " + inner, "its schedule does not flush and keeps several versions of the weights",
               "use gpipe or 1f1b"});
  validate(plan, model, one.batch, "the replicas' plan");
  plan.replicas = workers / devices;
  return plan;
}

/// Errors (user): --steps for a policy whose runs end otherwise. `policy`: as written.
void check_steps_flag(const RunSpec& experiment, const std::string& policy, const UpdatePolicy& update) {
  if (!experiment.steps_flag) return;
  const int64_t steps = *experiment.steps_flag;
  if (const auto refusal = update.refuses_steps(steps, policy.substr(0, policy.find(','))))
    fail_user({"--steps", std::to_string(steps), refusal->why, refusal->next});
}

}  // namespace

int devices_of_replica(const std::string& strategy, const Experiment& experiment) {
  const size_t cut = strategy.find(kInner);
  const int usual = experiment.replicas.devices;
  if (cut == strategy.npos) return usual;
  return parse_strategy(strategy.substr(cut + std::string_view(kInner).size()), "strategy " + strategy)
      .devices()
      .value_or(usual);
}

Plan plan_with_agreement(const std::string& strategy, const RunSpec& given, const Model& model, int workers) {
  RunSpec experiment = given;
  const size_t cut = strategy.find(kInner);
  const std::string policy = strategy.substr(0, cut);
  const std::string inner =
      cut == strategy.npos ? experiment.replicas.plan : strategy.substr(cut + std::string_view(kInner).size());
  const int devices = devices_of_replica(strategy, experiment);
  const int replicas = std::max(1, workers / devices);
  experiment = with_batch_of(experiment, strategy, workers);
  if (experiment.replicas.batch_per_replica) experiment.batch *= replicas;
  const RunFacts facts{replicas, experiment.seed, is_plain_sgd(experiment.optimizer)};
  const std::unique_ptr<UpdatePolicy> update = make_policy(policy, experiment.replicas, facts);
  check_steps_flag(experiment, policy, *update);
  check_local_parameters(model, update->local_parameters(),
                         place_of_option(policy, experiment.replicas, "local_parameters"));
  const auto* synchronous = dynamic_cast<const SynchronousPolicy*>(update.get());
  Plan plan = synchronous ? plan_of_workers(experiment, model, synchronous->options(), workers)
                          : plan_of_replica(experiment, model, inner, devices, workers);
  plan.name = strategy;
  plan.agreement = policy_text(policy, experiment.replicas);
  check_inner_plan(plan, *update);
  return plan;
}

void check_inner_plan(const Plan& plan, const UpdatePolicy& update) {
  if (!update.shares_memory() || plan.optimizer_sharding == OptimizerSharding::none) return;
  fail_user(
      {"plan " + plan.name, fmt::format("optimizer_sharding \"{}\"", name_of(plan.optimizer_sharding)),
       "its replicas write to one memory at any time; workers that divide the weights would have to synchronize first",
       "choose an inner plan without zero1 to zero3, or another policy"});
}

RunFacts facts_of(const Experiment& experiment, const Plan& plan) {
  return {plan.replicas, experiment.seed, is_plain_sgd(experiment.optimizer)};
}

void check_replicas(const RunSpec& experiment) {
  const auto refuse = [&](const char* key, const char* why, const char* value = "") {
    fail_user({experiment.where(key), value, why, "leave it out"});
  };
  if (experiment.optimizer.ema > 0) refuse("optimizer.ema", "update policies do not average weights over time");
  if (experiment.adapt) refuse("adapt", "changes the plan of synchronous training only");
  if (!experiment.memory_changes.empty())
    refuse("cluster.memory.change", "memory changes during synchronous training only");
  if (experiment.links && !experiment.links->changes.empty())
    refuse("cluster.link.change", "links change during synchronous training only");
  if (experiment.replicas.clock && experiment.links)
    refuse("cluster.link", "on the modelled clock links are those of [update.virtual]");
  if (experiment.noise_scale) refuse("noise_scale", "is estimated from synchronous training only");
  if (experiment.private_replicas && !experiment.links && !experiment.processes)
    refuse("replicas", "the workers of a replica share one copy of its weights, or divide them (zero1 to zero3)",
           "private");
}

int64_t share_of_worker(const Plan& plan, int64_t samples, int worker) {
  return (plan.speeds.empty() ? share_of(samples, plan.devices, worker) : share_of(samples, plan.speeds, worker))
      .size();
}

RunSpec with_batch_of(const RunSpec& experiment, const std::string& strategy, int devices) {
  const bool of_replica = experiment.replicas.batch_per_replica && is_update_policy(strategy);
  return with_batch_on(experiment, of_replica ? devices_of_replica(strategy, experiment) : devices);
}

RunSpec with_batch_of(const RunSpec& experiment, const Plan& plan) {
  const bool of_replica = experiment.replicas.batch_per_replica && !plan.agreement.empty();
  if (!of_replica) return with_batch_on(experiment, plan.workers());
  return with_batch_on(experiment, is_synchronous(plan.agreement) ? 1 : plan.devices);
}

RunSpec whole_experiment(const RunSpec& given, const Plan& plan) {
  RunSpec experiment = with_batch_of(given, plan);
  if (plan.agreement.empty() || !experiment.replicas.batch_per_replica) return experiment;
  experiment.batch *= is_synchronous(plan.agreement) ? plan.devices : plan.replicas;
  return experiment;
}

void check_memory_is_shared(const Experiment& experiment, const std::string& strategy) {
  if (experiment.device != c10::DeviceType::CPU)
    fail_on_gpus(experiment, fmt::format("replicas under {} write to one memory, and each", strategy));
  const auto refuse = [&](const char* key) {
    fail_user({experiment.where(key), "",
               fmt::format("replicas under {} write to one memory and send nothing over links", strategy),
               "leave it out, or use another policy"});
  };
  if (experiment.links) refuse("cluster.link");
  const std::optional<ModelledClock>& clock = experiment.replicas.clock;
  const auto is_slow = [](const LinkSpeed& link) { return link.bandwidth > 0 || link.latency > 0; };
  if (clock && is_slow(clock->link)) refuse("update.virtual.link");
  if (clock && clock->server_link && is_slow(*clock->server_link)) refuse("update.virtual.server_link");
}

}  // namespace trireme
