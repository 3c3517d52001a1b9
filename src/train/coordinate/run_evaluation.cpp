// Run: evaluations, and the end that one of them may bring.
#include <utility>

#include "train/evaluation.h"
#include "train/run.h"

namespace trireme {

void Run::evaluate(Phase& phase, int rank, Worker& worker, int64_t step) {
  Loader& loader = *phase.only_group().loader;
  StepOutcome sum = evaluate_all(worker, phase.plan, batches, [&](int64_t) { return loader.take(reader_of(rank)); });
  post(rank, step, true, std::move(sum), 0);
  if (rank == 0) evaluated_ = step;
  loader.take_load_seconds(reader_of(rank));  // an evaluation is not part of training time
  // The last post decides whether another step follows. Processes learn it from rank 0 (ProcessRank::enters).
  if (ends_early() && !process_) worker.barrier();
}

/// Called when all workers have posted an evaluation, and none has entered the next step.
void Run::end_if_due(const StepRecord& evaluation) {
  stopping_.add(evaluation_of(evaluation, data.train->task(), data.train->classes(), batches.test_samples()));
  if (!stopping_.reason().empty()) gate.stop();
}

}  // namespace trireme
