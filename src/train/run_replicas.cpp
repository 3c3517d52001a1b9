// Run: the replicas of a plan with an agreement.
#include <c10/core/InferenceMode.h>

#include <optional>

#include "base/memory.h"
#include "base/seconds.h"
#include "runtime/worker_threads.h"
#include "train/run.h"

namespace trireme {
namespace {

constexpr double kSecondsForWriter = 10;

/// Returns what the replica's leader decides, on all its workers.
template <class Decide>
bool decide(ReplicaGroup& group, int rank, Worker& worker, const Decide& by_leader) {
  return group.decision.take(rank, by_leader, [&] { worker.barrier(); });
}

}  // namespace

StepInput Run::replica_input(const Phase& phase, ReplicaGroup& group, int rank, int64_t step) const {
  const int r = group.number;
  return {.step = step * phase.plan.replicas + r,  // each replica has its own dropout masks
          .own_step = step,
          .ends_epoch = (step + 1) % agreement_->batches().steps_per_epoch(r) == 0,
          .batch = group.loader->take(rank),
          .learning_rate = agreement_->rate_at(r, step),
          .clip_norm = experiment.clip_norm,
          .starts_stream = agreement_->batches().starts_stream(step),
          .slowness =
              agreement_->is_modelled() ? 1 : slowness_at(experiment.worker_changes, group.first_rank + rank, step)};
}

/// One worker's part of one replica, until the replica's length is reached or the policy stops it.
void Run::work_as_replica(Phase& phase, ReplicaGroup& group, int rank, ParameterStore& store) {
  const c10::InferenceMode inference;  // tensors that the policy creates between two steps belong to the workers
  const std::unique_ptr<Worker> worker = make_worker(phase, group, rank, store);
  worker->show(group.agreement->view());
  worker->barrier();  // all have registered what they hold, and have taken their parts of the resumed state
  if (rank == 0) group.resumed.reset();
  const int64_t end = agreement_->steps_of_replica(group.number);
  std::optional<StepInput> input;  // of the next step; if the step is held, it stays until it is made
  bool ends = false;
  for (int64_t step = agreement_->begun_at(group.number) + group.agreement->hub().first_step();
       !ends && (end == 0 || step < end);) {
    if (!input) input = replica_input(phase, group, rank, step);
    const StepOutcome outcome = worker->train(*input);
    if (outcome.stopped) break;
    if (!outcome.held) {
      input.reset();
      agreement_->note_inner(group.first_rank + rank, outcome, load_seconds(group, rank));
      if (rank == 0) agreement_->after_step(group, step);
      ++step;
    }
    ends = stop_replica(phase, group, rank, *worker, store, step, outcome.held);
  }
  if (agreement_->stops().have_common_stops()) {
    if (rank == 0) group.is_done = true;
    while (!ends) ends = stop_together(phase, group, rank, *worker, store);
  }
  worker->barrier();  // all have noted what the leader reports of them
  if (rank == 0) agreement_->end(group);
}

/// Called after `step` steps. `held`: the next step was requested and is made later. Returns true if the run ends here.
bool Run::stop_replica(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store,
                       int64_t step, bool held) {
  ReplicaStops& stops = agreement_->stops();
  if (!held && agreement_->may_end_together(group.number, step) &&
      decide(group, rank, worker, [&] { return group.has_ended; })) {
    if (stops.writes())
      hand_over_replica(phase, group, rank, worker, store, stops.by_samples() ? agreement_->steps_so_far() : step);
    return true;
  }
  if (!stops.by_samples()) {
    bool ends = stops.ends_after(step);
    if (stops.ends_at_exchanges()) {
      ends = decide(group, rank, worker,
                    [&] { return group.agreement->has_exchanged() && stops.agrees_to_end(group.agreement->hub()); });
    }
    if (stops.writes_after(step) || (stops.writes() && (ends || step == agreement_->steps_of_replica(group.number))))
      hand_over_replica(phase, group, rank, worker, store, step);
    return ends;
  }
  if (!stops.have_common_stops()) return false;
  return decide(group, rank, worker, [&] { return stops.is_due(held); }) &&
         stop_together(phase, group, rank, worker, store);
}

/// Returns true if the final state of replicas that have all finished must still be handed over. The first replica
/// decides.
bool Run::hands_over_end(ReplicaGroup& group, int rank, Worker& worker) {
  if (!agreement_->stops().writes()) return false;
  return decide(group, rank, worker, [&] {
    const bool is_new = group.number == 0 && agreement_->steps_so_far() != handed_over_;
    const Hub::Unmetered quiet(group.agreement->hub());
    return group.agreement->hub().total(is_new ? 1 : 0) > 0;
  });
}

/// Stops the replicas wherever they are: all come, also those that make no more steps. Returns true if the run ends
/// here.
bool Run::stop_together(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store) {
  ReplicaStops& stops = agreement_->stops();
  const bool all_done = decide(group, rank, worker, [&] {
    if (group.is_done) group.agreement->settle();
    return stops.come(group.agreement->hub(), group.agreement->policy(), group.is_done);
  });
  if (all_done) {
    if (hands_over_end(group, rank, worker))
      hand_over_replica(phase, group, rank, worker, store, agreement_->steps_so_far());
    return true;
  }
  if (stops.writes()) hand_over_replica(phase, group, rank, worker, store, agreement_->steps_so_far());
  return decide(group, rank, worker, [&] { return stops.part(group.agreement->hub()); });
}

/// All replicas must call it together.
void Run::hand_over_replica(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store,
                            int64_t step) {
  const double began = steady_seconds();
  const bool leads = rank == 0, is_first = leads && group.number == 0;
  if (leads) agreement_->wait_for_all(group);
  if (is_first) {
    TrainingState used = handover.wait_for_turn([&] { return !group.world.abort_reason().empty(); });
    used.agreement.clear();
    used.agreement_texts.clear();
    group.gatherer.reuse(std::move(used));
    agreement_->wait_for_evaluations();  // what they have shown is part of the checkpoint
  }
  worker.settle();
  worker.barrier();
  group.gatherer.gather(rank, worker, store);
  if (leads) agreement_->keep(group, group.gatherer.take());
  if (leads) agreement_->wait_for_all(group);
  if (is_first) {
    handover.put(agreement_->with_evaluations({.step = step,
                                               .state = agreement_->take_kept(),
                                               .plan = phase.plan.in_short(model),
                                               .stall_seconds = steady_seconds() - began,
                                               .samples = agreement_->samples()}));
    handed_over_ = step;
  }
  worker.barrier();
}

/// For the server of replicas in other processes. It waits for the writer only if no further state will come. The last
/// state replaces one after as many steps: that one was taken when a step was reported, before the client's answer.
bool Run::takes_server_state(bool is_last) {
  const double began = steady_seconds();
  if (is_last) handover.wait_for_turn([&] { return steady_seconds() - began > kSecondsForWriter; });
  return handover.is_free() && (is_last || agreement_->steps_so_far() != handed_over_);
}

/// Runs on the replica's own thread.
void Run::train_replica(Phase& phase, Hub& hub) {
  ReplicaGroup& group = *phase.groups[size_t(hub.replica())];
  if (!agreement_->are_all_here())  // the state of the other replicas belongs to other processes
    for (const auto& other : phase.groups)
      if (other.get() != &group) other->resumed.reset();
  begin_loading(phase, group, agreement_->begun_at(group.number) + hub.first_step());
  ParameterStore store(phase.training, experiment.precision, group.first_rank);
  const std::unique_ptr<ReplicaAgreement> agreement = agreement_->make_part(hub, group);
  group.agreement = agreement.get();
  const std::vector<int> threads(size_t(phase.plan.devices), experiment.threads);
  run_worker_threads(
      group.world, [&](int rank) { work_as_replica(phase, group, rank, store); }, threads, group.first_rank);
}

}  // namespace trireme
