#include "train/evaluation.h"

namespace trireme {

StepOutcome evaluate_all(Worker& worker, const Plan& plan, const Batches& batches,
                         const std::function<Batch(int64_t k)>& take) {
  StepOutcome sum;
  for (int64_t k = 0; k < batches.evaluations(); ++k) {
    const StepOutcome part = worker.evaluate({.batch = take(k), .starts_stream = batches.evaluation_starts_anew(k)});
    // Without a barrier the first stage could run ahead, and its activations would accumulate before the second stage.
    if (plan.stages.size() > 1) worker.barrier();
    sum.loss_sum += part.loss_sum;
    for (const auto& [name, value] : part.metrics) sum.metrics[name] += value;
  }
  return sum;
}

namespace {

/// Returns the evaluation of each replica's own model.
std::vector<OwnEvaluation> own_evaluations(const StepRecord& entry, LearningTask task, int64_t classes,
                                           int64_t test_samples) {
  std::vector<OwnEvaluation> all;
  all.reserve(entry.own.size());
  for (const auto& [replica, outcomes] : entry.own) {
    const StepRecord own{.evaluation = true, .outcomes = outcomes};
    const EvaluationSums sums{own.metrics(), own.loss_sum(), test_samples, classes};
    all.push_back({replica, mean_loss(task, sums), evaluation_metrics(task, sums)});
  }
  return all;
}

/// Sets the loss and the metrics to the means over the replicas' own ones.
void take_means(EvaluationPoint& point) {
  const double count = double(point.own.size());
  point.loss = 0;
  point.metrics = point.own.front().metrics;
  for (Metric& metric : point.metrics) metric.value = 0;
  for (const OwnEvaluation& own : point.own) {
    point.loss += own.loss / count;
    for (size_t m = 0; m < point.metrics.size(); ++m) point.metrics[m].value += own.metrics[m].value / count;
  }
}

}  // namespace

EvaluationPoint evaluation_of(const StepRecord& entry, LearningTask task, int64_t classes, int64_t test_samples) {
  const EvaluationSums sums{entry.metrics(), entry.loss_sum(), test_samples, classes};
  EvaluationPoint point{.step = entry.step, .loss = mean_loss(task, sums), .metrics = evaluation_metrics(task, sums)};
  point.own = own_evaluations(entry, task, classes, test_samples);
  if (!point.own.empty()) take_means(point);
  return point;
}

}  // namespace trireme
