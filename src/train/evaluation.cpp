#include "train/evaluation.h"

namespace trireme {

StepOutcome evaluate_all(Worker& worker, const Plan& plan, const Batches& batches,
                         const std::function<Batch(int64_t k)>& take) {
  StepOutcome sum;
  for (int64_t k = 0; k < batches.evaluations(); ++k) {
    const StepOutcome part = worker.evaluate({.batch = take(k), .starts_stream = batches.evaluation_starts_anew(k)});
    // Nothing else slows down a first stage; its activations would pile up in front of the second stage.
    if (plan.stages.size() > 1) worker.barrier();
    sum.loss_sum += part.loss_sum;
    for (const auto& [name, value] : part.metrics) sum.metrics[name] += value;
  }
  return sum;
}

EvaluationPoint evaluation_of(const StepRecord& entry, LearningTask task, int64_t classes, int64_t test_samples) {
  const EvaluationSums sums{entry.metrics(), entry.loss_sum(), test_samples, classes};
  return {.step = entry.step, .loss = mean_loss(task, sums), .metrics = evaluation_metrics(task, sums)};
}

}  // namespace trireme
