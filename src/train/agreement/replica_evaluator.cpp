#include "train/agreement/replica_evaluator.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "metrics/metrics.h"
#include "runtime/replica_view.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "train/evaluation.h"
#include "train/final_metrics.h"

namespace trireme {

namespace {

/// Bit for bit. The snapshot of the last round of a federated run may be equal to that of the end of the run.
bool are_equal(const ReplicaSnapshot& a, const ReplicaSnapshot& b) {
  const auto equal = [](const at::Tensor& x, const at::Tensor& y) {
    return x.sizes() == y.sizes() && x.equal(y.to(x.device()));  // snapshots may be of replicas on two GPUs
  };
  return a.samples == b.samples && std::ranges::equal(a.values.weights, b.values.weights, equal) &&
         std::ranges::equal(a.values.statistics, b.values.statistics, [&](const auto& x, const auto& y) {
           return equal(x.mean, y.mean) && equal(x.variance, y.variance);
         });
}

}  // namespace

/// Data that the plan's workers share while they evaluate.
struct ReplicaEvaluator::EvaluationWorkers {
  explicit EvaluationWorkers(const Task& task)
      : world(task.plan.devices),
        store(task.training, task.experiment.precision, 0),
        view(task.training, task.model),
        outcomes(size_t(task.plan.devices)) {}

  LocalWorld world;
  ParameterStore store;
  ReplicaView view;
  ReplicaState state;  ///< used by rank 0 only, like `snapshot`
  ReplicaSnapshot snapshot;
  bool goes_on = true, is_evaluated = true;  ///< written by rank 0 between two barriers
  std::vector<StepOutcome> outcomes;         ///< by rank
};

ReplicaEvaluator::~ReplicaEvaluator() {
  close();
  if (thread_.joinable()) thread_.join();
}

void ReplicaEvaluator::close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void ReplicaEvaluator::start(Stop stop) {
  stop_ = std::move(stop);
  thread_ = std::thread([this] {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void ReplicaEvaluator::add(ReplicaSnapshot snapshot) {
  {
    MutexLock lock(mutex_);
    waiting_.push_back(std::move(snapshot));
  }
  changed_.notify_all();
}

void ReplicaEvaluator::finish(Stop stop) {
  close();
  if (thread_.joinable()) {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
    return;
  }
  {
    MutexLock lock(mutex_);
    if (waiting_.empty()) return;
  }
  stop_ = std::move(stop);
  work();
}

const TensorMap& ReplicaEvaluator::weights() const {
  static const TensorMap none;
  return weights_ ? weights_->tensors() : none;
}

/// Takes the snapshot with the fewest samples (the first of equal ones); waits for it. Returns false if no more will
/// come.
bool ReplicaEvaluator::next(ReplicaSnapshot& snapshot, bool& is_last) {
  MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() TRIREME_REQUIRES(mutex_) { return closed_ || !waiting_.empty(); });
  if (waiting_.empty()) return false;
  const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                      [](const auto& a, const auto& b) { return a.samples < b.samples; });
  snapshot = std::move(*first);
  waiting_.erase(first);
  is_last = closed_ && waiting_.empty();
  return true;
}

void ReplicaEvaluator::work() {
  weights_ = std::make_unique<TrainedWeights>(task_.training, task_.model);
  EvaluationWorkers workers(task_);
  run_worker_threads(
      workers.world, [&](int rank) { work_as(rank, workers); },
      std::vector<int>(size_t(task_.plan.devices), task_.experiment.threads));
}

void ReplicaEvaluator::work_as(int rank, EvaluationWorkers& workers) {
  c10::InferenceMode inference;
  Worker worker(rank, task_.model, &task_.training, &task_.evaluation, workers.store, workers.world,
                {.seed = task_.experiment.seed,
                 .batch_norm = task_.experiment.batch_norm});  // plain SGD: evaluations need no moments
  worker.show(workers.view);
  worker.barrier();
  if (rank == 0) workers.state = workers.view.state();
  const auto take = [this](int64_t k) { return batch_from(task_.batches.evaluation(k)); };
  while (true) {
    if (rank == 0) {
      bool is_last = false;
      workers.goes_on = next(workers.snapshot, is_last);
      const bool is_known = workers.is_evaluated && newest_ && workers.goes_on && are_equal(workers.snapshot, *newest_);
      if (workers.goes_on && (!newest_ || workers.snapshot.samples >= newest_->samples)) newest_ = workers.snapshot;
      if (newest_) write_values(workers.goes_on ? workers.snapshot.values : newest_->values, workers.state);
      workers.view.renew();
      workers.is_evaluated = workers.goes_on && !is_known && (is_last || !stop_());
    }
    worker.barrier();
    if (!workers.goes_on) break;
    if (workers.is_evaluated)
      workers.outcomes[size_t(rank)] = evaluate_all(worker, task_.plan, task_.data, task_.batches.evaluations(), take);
    worker.barrier();
    if (rank == 0 && workers.is_evaluated) post(workers.snapshot, workers.outcomes);
  }
  if (newest_) weights_->gather(rank, worker, workers.store);
}

void ReplicaEvaluator::post(const ReplicaSnapshot& snapshot, std::vector<StepOutcome> outcomes) {
  const int64_t batch = task_.experiment.batch;
  records_.post_whole({.evaluation = true,
                       .step = (snapshot.samples + batch - 1) / batch,
                       .outcomes = std::move(outcomes),
                       .samples = snapshot.samples,
                       .seconds = snapshot.seconds});
}

}  // namespace trireme
