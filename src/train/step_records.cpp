#include "train/step_records.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace trireme {

double StepRecord::loss_sum() const {
  double sum = 0;
  for (const StepOutcome& o : outcomes) sum += o.loss_sum;
  return sum;
}

std::map<std::string, double> StepRecord::metrics() const {
  std::map<std::string, double> sums;
  for (const StepOutcome& o : outcomes)
    for (const auto& [name, value] : o.metrics) sums[name] += value;
  return sums;
}

double StepRecord::begin() const {
  double least = std::numeric_limits<double>::infinity();
  for (const StepOutcome& o : outcomes) least = std::min(least, o.begin);
  return least;
}

double StepRecord::end() const {
  double greatest = 0;
  for (const StepOutcome& o : outcomes) greatest = std::max(greatest, o.end);
  return greatest;
}

void StepRecords::post(int rank, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds) {
  MutexLock lock(mutex_);
  auto [it, fresh] = drafts_.try_emplace({step, evaluation});
  if (fresh) {
    it->second.entry.evaluation = evaluation;
    it->second.entry.step = step;
    it->second.entry.plan = plan_;
    it->second.entry.outcomes.resize(size_t(ranks_));
    it->second.entry.load_seconds.resize(size_t(ranks_));
    order_.push_back({step, evaluation});
  }
  it->second.entry.outcomes[size_t(rank)] = std::move(outcome);
  it->second.entry.load_seconds[size_t(rank)] = load_seconds;
  ++it->second.posted;
  if (!it->second.is_complete()) return;
  if (evaluation && on_evaluation) on_evaluation(it->second.entry);
  changed_.notify_all();
}

void StepRecords::post_whole(StepRecord entry) {
  MutexLock lock(mutex_);
  whole_.push_back(std::move(entry));
}

void StepRecords::change_plan(int ranks) {
  MutexLock lock(mutex_);
  ranks_ = ranks;
  ++plan_;
}

void StepRecords::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<StepRecord> StepRecords::next(double seconds, bool& timed_out) {
  MutexLock lock(mutex_);
  auto complete = [&]() TRIREME_REQUIRES(mutex_) {
    return next_ < order_.size() && drafts_[order_[next_]].is_complete();
  };
  timed_out = !changed_.wait_for(mutex_, std::chrono::duration<double>(seconds),
                                 [&]() TRIREME_REQUIRES(mutex_) { return closed_ || complete() || !whole_.empty(); });
  if (!whole_.empty()) {
    timed_out = false;
    StepRecord entry = std::move(whole_.front());
    whole_.pop_front();
    return entry;
  }
  if (!complete()) return std::nullopt;
  auto it = drafts_.find(order_[next_++]);
  StepRecord entry = std::move(it->second.entry);
  drafts_.erase(it);
  return entry;
}

bool StepGate::enter(int64_t step) {
  MutexLock lock(mutex_);
  if (step >= end_) return false;
  newest_ = std::max(newest_, step);
  return true;
}

void StepGate::stop() {
  MutexLock lock(mutex_);
  end_ = std::min(end_, newest_ + 1);
  stopped_ = true;
}

void StepGate::pause() {
  MutexLock lock(mutex_);
  end_ = std::min(end_, newest_ + 1);
}

bool StepGate::reopen() {
  MutexLock lock(mutex_);
  if (!stopped_) end_ = INT64_MAX;
  return !stopped_;
}

void StepGate::request_probe() {
  MutexLock lock(mutex_);
  probe_ = newest_ + 1;
}

bool StepGate::probes_before(int64_t step) {
  MutexLock lock(mutex_);
  return step == probe_;
}

}  // namespace trireme
