// RunAgreement: evaluations while replicas train, the end that one of them may bring, and the weights of the best one.
#include <utility>

#include "base/memory.h"
#include "comm/flight_recorder.h"
#include "train/agreement/agreement_state.h"
#include "train/agreement/replica_group.h"
#include "train/agreement/run_agreement.h"
#include "train/evaluation.h"
#include "update/federated.h"

namespace trireme {

void RunAgreement::begin_watching(const AgreementBeginning& beginning, ReplicaHosting hosting) {
  const EarlyStoppingSpec& spec = experiment_.early_stopping;
  evaluates_now_ = world_->serves() || (world_->decides() && hosting != ReplicaHosting::clients);
  waits_together_ = update_->evaluates_together() && hosting != ReplicaHosting::clients;
  {
    MutexLock lock(mutex_);
    shown_.stopping = stopping_.state();
    if (spec.restore_best && shown_.stopping.best) shown_.best = beginning.best;
    if (beginning.reached && beginning.reached->target == experiment_.target) shown_.reached = beginning.reached;
  }
  evaluator_.on_evaluated = [this](const StepRecord& record, const ReplicaSnapshot& snapshot) {
    take_evaluation(record, snapshot);
  };
  evaluator_.chosen = [this] {
    MutexLock lock(mutex_);
    return best_;
  };
}

/// Called by a thread that evaluates.
void RunAgreement::take_evaluation(const StepRecord& record, const ReplicaSnapshot& snapshot) {
  EvaluationPoint point =
      evaluation_of(record, data_.train->task(), data_.train->classes(), batches_.whole().test_samples());
  point.samples = record.samples;
  point.epoch = double(record.samples) / double(data_.train->size());
  point.seconds = record.seconds;
  {
    MutexLock lock(mutex_);
    stopping_.add(point);
    shown_.stopping = stopping_.state();
    if (!shown_.reached) shown_.reached = reached_by(point, experiment_.target);
    if (experiment_.early_stopping.restore_best && stopping_.improved()) {
      shown_.best = std::move(point);
      best_ = snapshot;
    }
    if (over_ || !shown_.ended.empty() || stopping_.reason().empty()) return;
    shown_.ended = stopping_.reason();
  }
  end_for_evaluation();
}

/// Ends the run at the next place where it can. Replicas that evaluate together learn it from each other.
void RunAgreement::end_for_evaluation() {
  if (auto* federated = dynamic_cast<FederatedPolicy*>(update_.get())) federated->stop();
  else if (!waits_together_) stops_.end(/*decides=*/true);
}

bool RunAgreement::may_end_together(int replica, int64_t steps) const {
  if (!waits_together_) return false;
  const int64_t every = steps_of(experiment_.evaluate_every, batches_.steps_per_epoch(replica));
  return steps % every == 0 && steps != steps_of_replica(replica);
}

/// Leader. All replicas call it after the same step, when the values to be evaluated have been handed over. The time
/// until all have the answer is not part of the run's.
void RunAgreement::evaluate_together(ReplicaGroup& group) {
  Hub& hub = group.agreement->hub();
  const double before = hub.now();
  bool ends = false;
  if (group.number == 0) {
    wait_for_evaluations();
    MutexLock lock(mutex_);
    ends = !shown_.ended.empty();
  }
  const Hub::Unmetered quiet(hub);
  group.has_ended = hub.total(ends ? 1 : 0) > 0;
  group.began += hub.now() - before;
}

void RunAgreement::wait_for_evaluations() {
  if (!evaluates_now_) return;
  const LongWork evaluating(world_->recorder(), "evaluating");
  evaluator_.wait([this] {
    MutexLock lock(mutex_);
    return !abort_reason_.empty() || !world_->abort_reason().empty();
  });
}

/// Adds the values of the best evaluation to a checkpoint, and notes what belongs to them.
void RunAgreement::add_shown(TrainingState& part) {
  std::optional<ReplicaSnapshot> best;
  {
    MutexLock lock(mutex_);
    kept_shown_ = shown_;
    best = best_;
  }
  if (best) add_best(best->values, part);
}

GatheredState RunAgreement::with_evaluations(GatheredState gathered) const {
  MutexLock lock(mutex_);
  gathered.shown = kept_shown_;
  return gathered;
}

std::string RunAgreement::ended_early() const {
  const auto* federated = dynamic_cast<const FederatedPolicy*>(update_.get());
  const bool made_all_rounds = federated && federated->counts_rounds() &&
                               int64_t(federated->rounds().size()) >= federated->options().rounds.rounds;
  MutexLock lock(mutex_);
  bool made_all =
      federated ? made_all_rounds || (!federated->counts_rounds() && samples_ >= samples_of(experiment_.length)) : true;
  for (int r = 0; !federated && r < plan_.replicas; ++r)
    made_all = made_all && next_step_[size_t(r)] >= steps_of_replica(r);
  return made_all ? "" : shown_.ended;
}

std::optional<EvaluationPoint> RunAgreement::best_evaluation() const {
  MutexLock lock(mutex_);
  return shown_.best;
}

}  // namespace trireme
