#include "train/agreement/replica_evaluator.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/devices/device.h"
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
  const auto equal_values = [&](const ModelValues& x, const ModelValues& y) {
    return std::ranges::equal(x.weights, y.weights, equal) &&
           std::ranges::equal(x.statistics, y.statistics, [&](const auto& s, const auto& t) {
             return equal(s.mean, t.mean) && equal(s.variance, t.variance);
           });
  };
  return a.samples == b.samples && equal_values(a.values, b.values) &&
         std::ranges::equal(a.own, b.own, [&](const auto& x, const auto& y) {
           return x.first == y.first && equal_values(x.second, y.second);
         });
}

constexpr auto kEvaluationPoll = std::chrono::milliseconds(20);
constexpr int kWhole = -1;  // in place of a replica: the values of the run as a whole

/// Returns the replicas whose own models are evaluated, or kWhole alone.
std::vector<int> evaluated_models(const ReplicaSnapshot& snapshot) {
  std::vector<int> models;
  models.reserve(snapshot.own.size() + 1);
  for (const auto& [replica, values] : snapshot.own) models.push_back(replica);
  if (models.empty()) models.push_back(kWhole);
  return models;
}

}  // namespace

/// Data that the plan's workers share while they evaluate.
struct ReplicaEvaluator::EvaluationWorkers {
  EvaluationWorkers(const Task& task, int first_device)
      : world(task.plan.devices),
        store(task.training, task.experiment.precision, first_device),
        view(task.training, task.model),
        outcomes(size_t(task.plan.devices)) {}

  LocalWorld world;
  ParameterStore store;
  ReplicaView view;
  ReplicaState state;  ///< used by rank 0 only, like `snapshot`
  ReplicaSnapshot snapshot;
  bool goes_on = true, is_evaluated = true;           ///< written by rank 0 between two barriers
  std::vector<int> models;                            ///< evaluated_models of the snapshot; written likewise
  std::vector<StepOutcome> outcomes;                  ///< by rank
  std::map<int, std::vector<StepOutcome>> of_models;  ///< the outcomes by model; used by rank 0 only
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

void ReplicaEvaluator::start(Stop stop, int first_device) {
  stop_ = std::move(stop);
  if (place_of(0).is_cpu()) first_device_ = std::min(first_device, kMaxDevices - task_.plan.devices);
  thread_ = std::thread([this] {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
      {
        MutexLock lock(mutex_);
        has_failed_ = true;
      }
      changed_.notify_all();
    }
  });
}

void ReplicaEvaluator::wait(const std::function<bool()>& gives_up) {
  while (!gives_up()) {  // without the lock, because it may take others
    MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kEvaluationPoll,
                           [this]() TRIREME_REQUIRES(mutex_) { return has_failed_ || done_ == added_; }))
      continue;
    if (has_failed_) std::rethrow_exception(error_);
    return;
  }
}

void ReplicaEvaluator::add(ReplicaSnapshot snapshot) {
  {
    MutexLock lock(mutex_);
    waiting_.push_back(std::move(snapshot));
    ++added_;
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
  EvaluationWorkers workers(task_, first_device_);
  run_worker_threads(
      workers.world, [&](int rank) { work_as(rank, workers); },
      std::vector<int>(size_t(task_.plan.devices), task_.experiment.threads), first_device_);
}

void ReplicaEvaluator::work_as(int rank, EvaluationWorkers& workers) {
  c10::InferenceMode inference;
  Worker worker(rank, task_.model, &task_.training, &task_.evaluation, workers.store, workers.world,
                {.seed = task_.experiment.seed,
                 .batch_norm = task_.experiment.batch_norm});  // plain SGD: evaluations need no moments
  worker.show(workers.view);
  worker.barrier();
  if (rank == 0) workers.state = workers.view.state();
  while (true) {
    if (rank == 0) take_next(workers);
    worker.barrier();
    if (!workers.goes_on) break;
    for (const int model : workers.models) {
      if (rank == 0) {
        write_values(model == kWhole ? workers.snapshot.values : workers.snapshot.own.at(model), workers.state);
        workers.view.renew();
      }
      worker.barrier();
      const auto take = [&](int64_t k) {
        return batch_from(model == kWhole ? task_.batches.whole().evaluation(k) : task_.batches.evaluation(model, k));
      };
      workers.outcomes[size_t(rank)] = evaluate_all(worker, task_.plan, task_.batches.whole(), take);
      worker.barrier();
      if (rank == 0) workers.of_models[model] = workers.outcomes;
    }
    worker.barrier();
    if (rank == 0 && workers.is_evaluated) post(workers.snapshot, std::exchange(workers.of_models, {}));
  }
  if (newest_) weights_->gather(rank, worker, workers.store);
}

/// Rank 0. Takes the next snapshot and decides which models are evaluated. After the last snapshot the workers hold the
/// values of the result.
void ReplicaEvaluator::take_next(EvaluationWorkers& workers) {
  {
    MutexLock lock(mutex_);
    done_ = added_ - int64_t(waiting_.size());
  }
  changed_.notify_all();
  bool is_last = false;
  workers.goes_on = next(workers.snapshot, is_last);
  const bool returns = !workers.goes_on && newest_is_left_out_;  // it came before it was known to be the last
  if (returns) {
    workers.snapshot = *newest_;
    workers.goes_on = is_last = true;
    --left_out_;
  }
  const bool is_known =
      !returns && workers.is_evaluated && newest_ && workers.goes_on && are_equal(workers.snapshot, *newest_);
  const bool is_newest = workers.goes_on && (!newest_ || workers.snapshot.samples >= newest_->samples);
  if (is_newest) newest_ = workers.snapshot;
  const bool is_due = workers.goes_on && !is_known;
  workers.is_evaluated = is_due && (is_last || !stop_());
  if (is_due && !workers.is_evaluated) ++left_out_;
  if (is_newest) newest_is_left_out_ = is_due && !workers.is_evaluated;
  workers.models = workers.is_evaluated ? evaluated_models(workers.snapshot) : std::vector<int>();
  if (workers.goes_on || !newest_) return;
  const std::optional<ReplicaSnapshot> result = chosen ? chosen() : std::nullopt;
  write_values(result ? result->values : newest_->values, workers.state);
  workers.view.renew();
}

/// `outcomes`: by model, then by rank.
void ReplicaEvaluator::post(const ReplicaSnapshot& snapshot, const std::map<int, std::vector<StepOutcome>>& outcomes) {
  const int64_t batch = task_.experiment.batch;
  StepRecord record{.evaluation = true,
                    .step = (snapshot.samples + batch - 1) / batch,
                    .outcomes = {},
                    .samples = snapshot.samples,
                    .seconds = snapshot.seconds};
  if (snapshot.own.empty()) record.outcomes = outcomes.at(kWhole);
  else record.own = outcomes;
  if (on_evaluated) on_evaluated(record, snapshot);
  records_.post_whole(std::move(record));
}

}  // namespace trireme
