// Run: evaluations, the end that one of them may bring, and the weights of the best one.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/memory.h"
#include "train/evaluation.h"
#include "train/run.h"
#include "trireme/error.h"

namespace trireme {

void Run::evaluate(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step) {
  Loader& loader = *phase.only_group().loader;
  StepOutcome sum = evaluate_all(worker, phase.plan, batches, [&](int64_t) { return loader.take(reader_of(rank)); });
  post(rank, step, true, std::move(sum), 0);
  if (rank == 0) evaluated_ = step;
  loader.take_load_seconds(reader_of(rank));  // an evaluation is not part of training time
  // The last post decides whether another step follows. Processes learn it from rank 0 (ProcessRank::enters).
  if (experiment.early_stopping.watches() && !process_) worker.barrier();
  if (experiment.early_stopping.restore_best) keep_if_best(phase, rank, worker, store, step);
}

/// Called when all workers have posted an evaluation, and none has entered the next step.
void Run::end_if_due(const StepRecord& evaluation) {
  newest_evaluation_ = evaluation_of(evaluation, data.train->task(), data.train->classes(), batches.test_samples());
  stopping_.add(*newest_evaluation_);
  if (!stopping_.reason().empty()) gate.stop();
}

/// All workers call it after an evaluation. Rank 0 gets the weights if they are the best so far.
void Run::keep_if_best(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step) {
  bool improved = stopping_.improved();
  if (process_) {  // only rank 0 knows
    const DeviceScope uncharged(kNoDevice);
    at::Tensor told = at::full({1}, improved ? 1.0 : 0.0, at::kDouble);
    process_->states().broadcast(told, 0);
    improved = told.item<double>() > 0;
  }
  if (!improved) return;
  if (process_) phase.weights.gather(worker, process_->states(), experiment.precision);
  else phase.weights.gather(rank, worker, store);
  if (rank != 0) return;
  if (const std::string failure = phase.weights.failure(); !failure.empty())
    fail_run(
        {"early_stopping.restore_best", fmt::format("the weights after step {} cannot be kept", step), failure, ""});
  best_ = {newest_evaluation_, phase.weights.take()};
}

/// Takes the best weights out of the state that the run resumes, or drops those that it does not compare with.
void Run::resume_best(const std::optional<EvaluationPoint>& best) {
  TensorMap tensors = std::exchange(state_->best, {});
  if (!experiment.early_stopping.restore_best || !best || !stopping_.state().best || tensors.empty()) return;
  best_ = {best, std::move(tensors)};
}

const TensorMap& Run::trained_weights() const {
  if (agreement_) return agreement_->weights();
  return best_.evaluation ? best_.tensors : last_phase().weights.tensors();
}

std::optional<EvaluationPoint> Run::best_evaluation() const {
  return agreement_ ? agreement_->best_evaluation() : best_.evaluation;
}

}  // namespace trireme
