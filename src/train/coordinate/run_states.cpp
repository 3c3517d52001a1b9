// Run: the states of a plan without an agreement that are handed over to be written.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/seconds.h"
#include "comm/flight_recorder.h"
#include "runtime/whole_step.h"
#include "train/run.h"

namespace trireme {

TrainingState Run::with_best(TrainingState state) const {
  state.best = best_.tensors;
  return state;
}

/// Called on rank 0 after the other ranks are lost. Hands over what is in its weights but not in the last checkpoint.
void Run::hand_over_alone(Phase& phase, Worker& worker) {
  const double began = steady_seconds();
  const LongWork saving(flight_recorder(process_->world()), kSavingLastStep);
  const std::optional<WholeSteps> whole = worker.return_to_whole_step();
  if (!whole) return;
  std::map<int64_t, std::vector<double>> losses;
  for (const auto& [number, by_rank] : whole->losses) losses[begun_at + number] = by_rank;
  // A state that was already handed over also needs its step's loss.
  const bool all_known = process_->post_for_others(records, losses);
  const int64_t step = begun_at + whole->done;
  if (!all_known || step <= std::max(handed_over_, begun_at) || step == steps) return;
  phase.gatherer.reuse(handover.take_used());
  phase.gatherer.gather_alone(worker);
  handover.put({.step = step,
                .state = with_best(phase.gatherer.take()),
                .plan = phase.plan.in_short(model),
                .stall_seconds = steady_seconds() - began,
                .awaits_evaluation = evaluates_after(step - 1) && evaluated_ < step,
                .shown = {.best = best_.evaluation}});
}

/// Called between two steps. Hands over the state of the run after `step` steps to be written. All workers must call it
/// together.
void Run::hand_over(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step) {
  const double began = steady_seconds();
  worker.drain();
  const auto aborted = [&] {
    return !(process_ ? process_->abort_reason() : phase.only_group().world.abort_reason()).empty();
  };
  if (rank == 0) phase.gatherer.reuse(handover.wait_for_turn(aborted));
  gather_state(phase, rank, worker, store);
  if (rank == 0) {
    handover.put({.step = step,
                  .state = with_best(phase.gatherer.take()),
                  .plan = phase.plan.in_short(model),
                  .stall_seconds = steady_seconds() - began,
                  .shown = {.best = best_.evaluation}});
    handed_over_ = step;
  }
}

void Run::gather_state(Phase& phase, int rank, Worker& worker, const ParameterStore& store) {
  if (!process_) return phase.gatherer.gather(rank, worker, store);
  phase.gatherer.gather(worker, process_->states(), experiment.precision, optimizer_state_count(experiment.optimizer));
}

}  // namespace trireme
