#include "train/agreement/agreement_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "forecast/agreement_plan.h"
#include "plan/strategies.h"
#include "train/agreement/agreement_state.h"
#include "trireme/error.h"
#include "update/cadence.h"
#include "update/federated.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

bool equal_steps(const ReplicaBatches& batches, int replicas) {
  for (int r = 1; r < replicas; ++r)
    if (batches.steps_per_epoch(r) != batches.steps_per_epoch(0)) return false;
  return true;
}

/// Errors (user): no round of the run is left. `samples`: the run's length without a number of rounds.
void refuse_finished_rounds(const FederatedPolicy& policy, int64_t samples, const Length& length,
                            const Resumption& resumption) {
  const std::optional<SavedRounds> saved = saved_rounds(shared_policy_in(resumption.checkpoint.state));
  if (!saved) return;
  const int64_t wanted = policy.options().rounds.rounds;
  const auto refuse = [&](std::string why, std::string next) {
    fail_user({resumption.path.string(), fmt::format("{} are done", counted(saved->over, "round")), std::move(why),
               std::move(next)});
  };
  if (policy.counts_rounds() && saved->over >= wanted)
    refuse(fmt::format("the training has {} in all, and none is left", counted(wanted, "round")),
           fmt::format("train longer: rounds={} or more, which counts from the beginning", saved->over + 1));
  if (!policy.counts_rounds() && saved->has_ended && resumption.checkpoint.index.samples >= samples)
    refuse(fmt::format("they end when the length of {} is reached, and none is left", text_of(length)),
           "train longer: a greater length, which counts from the beginning");
}

}  // namespace

std::vector<ReplicaProgress> progress_of(const AgreementBeginning& beginning, const ReplicaBatches& batches,
                                         int replicas) {
  std::vector<ReplicaProgress> all = beginning.replicas;
  for (int r = int(all.size()); r < replicas; ++r) {
    ReplicaProgress& one = all.emplace_back(ReplicaProgress{.steps = beginning.step});
    for (int64_t s = 0; s < beginning.step; ++s) one.samples += batches.samples_in(r, s);
  }
  return all;
}

int64_t samples_of(const std::vector<ReplicaProgress>& replicas) {
  int64_t samples = 0;
  for (const ReplicaProgress& one : replicas) samples += one.samples;
  return samples;
}

int64_t steps_of_run(const Length& length, const ReplicaBatches& batches, int replicas) {
  int64_t steps = 0;
  for (int r = 0; r < replicas; ++r) steps += steps_of(length, batches.steps_per_epoch(r));
  return steps / replicas;
}

int64_t samples_of(const Length& length, const ReplicaBatches& batches, int64_t batch) {
  return length.unit == Length::Unit::epochs ? int64_t(length.count * double(batches.samples_per_epoch()))
                                             : int64_t(length.count) * batch;
}

ReplicaStopOptions stops_of(const RunSpec& experiment, const UpdatePolicy& update, const ReplicaBatches& batches,
                            const std::vector<ReplicaProgress>& begun, bool writes, ReplicaHosting hosting) {
  const int replicas = int(begun.size());
  ReplicaStopOptions options{.replicas = replicas,
                             .equal_steps = equal_steps(batches, replicas),
                             .all_here = hosting == ReplicaHosting::threads};
  for (const ReplicaProgress& one : begun) options.begun.push_back(one.steps);
  const bool may_fail = experiment.replicas.clock && !experiment.replicas.clock->failures.empty();
  options.can_end = options.all_here ? !may_fail : hosting == ReplicaHosting::processes;
  if (!writes) return options;
  options.checkpoint_steps = steps_of(experiment.checkpoint.every, batches.steps_per_epoch(0));
  options.checkpoint_samples = std::max<int64_t>(1, samples_of(experiment.checkpoint.every, batches, experiment.batch));
  return options;
}

void check_agreement_checkpoints(const RunSpec& experiment, const TaskData& data, const Plan& plan, bool resumes,
                                 bool serves) {
  if (!resumes && !experiment.checkpoint.wanted()) return;
  const std::string where = resumes ? "--resume" : experiment.checkpoint.where;
  const auto refuse = [&](std::string why, std::string next) {
    fail_user({where, plan.name, std::move(why), std::move(next)});
  };
  const std::unique_ptr<UpdatePolicy> update = make_policy(plan.agreement, {}, facts_of(experiment, plan));
  if (serves && !update->server())
    refuse("only its clients have the weights: there is no parameter server that could save them",
           "use a policy with a parameter server, or trireme launch train");
  if (is_synchronous(plan.agreement))
    refuse("it is the plan data on a modelled clock, which has no checkpoints", "use the plan data");
  if (!experiment.checkpoint.best.empty() && !resumes)
    refuse("replicas are evaluated after training: no best checkpoint is known before", "leave out checkpoint.best");
  if (experiment.replicas.clock && !experiment.replicas.clock->failures.empty())
    refuse("its workers fail, and a lost replica has no part in a checkpoint",
           "leave out the failures of [update.virtual]");
  const RunSpec whole = whole_experiment(experiment, plan);
  const ReplicaBatches batches(whole, data, plan.replicas, update->evaluates_together());
  if (serves) return;  // a server stops no replica
  const int64_t per_epoch = batches.steps_per_epoch(0);
  const int64_t first =
      std::min(steps_of(experiment.length, per_epoch), steps_of(experiment.checkpoint.every, per_epoch));
  if (experiment.checkpoint.wanted() && first < update->steps_before_stops())
    refuse(fmt::format("no checkpoint is possible before step {}: until then replicas wait for the first one",
                       update->steps_before_stops()),
           "write checkpoints less often");
}

Resumption open_resumption(const std::filesystem::path& path, const Plan& plan, const RunSpec& experiment,
                           const Model& model, const TaskData& data) {
  const RunSpec whole = whole_experiment(experiment, plan);
  if (plan.agreement.empty()) {
    Resumption resumption = open_resumption(path, whole, model, data, std::nullopt);
    check_agreement_state(plan, resumption.checkpoint.state, resumption.path.string());
    return resumption;
  }
  const std::unique_ptr<UpdatePolicy> update = make_policy(plan.agreement, {}, facts_of(experiment, plan));
  const auto* federated = dynamic_cast<const FederatedPolicy*>(update.get());
  const ReplicaBatches batches(whole, data, plan.replicas, update->evaluates_together());
  const int64_t steps = federated ? 0 : steps_of_run(whole.length, batches, plan.replicas);
  Resumption resumption = open_resumption(path, whole, model, data, steps);
  const TrainingState& state = resumption.checkpoint.state;
  check_agreement_state(plan, state, resumption.path.string());
  check_policy_of_state(*update, state, resumption.path.string());
  if (federated)
    refuse_finished_rounds(*federated, samples_of(whole.length, batches, whole.batch), whole.length, resumption);
  return resumption;
}

}  // namespace trireme
