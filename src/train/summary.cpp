#include "train/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/median.h"
#include "metrics/early_stopping.h"
#include "train/evaluation.h"
#include "train/result/repeats.h"

namespace trireme {
namespace {

constexpr int64_t kWarmupSteps = 3, kWarmupShare = 3;

GradientNorms norms_of(const StepRecord& entry) {
  GradientNorms sum;
  for (const StepOutcome& outcome : entry.outcomes) {
    sum.squares += outcome.norms.squares;
    sum.piece_squares += outcome.norms.piece_squares;
    sum.pieces += outcome.norms.pieces;
    sum.inverse_samples += outcome.norms.inverse_samples;
  }
  return sum;
}

}  // namespace

int64_t warmup_steps(int64_t total_steps) { return std::min(kWarmupSteps, total_steps / kWarmupShare); }

Summary::Summary(const Experiment& experiment, const Goal& goal, int devices, int64_t train_samples,
                 int64_t test_samples, int64_t total_steps, int replicas)
    : experiment_(experiment),
      goal_(goal),
      devices_(devices),
      train_samples_(train_samples),
      test_samples_(test_samples),
      total_steps_(total_steps),
      compute_(size_t(devices)),
      load_(size_t(devices)),
      exposed_(size_t(devices)),
      hidden_(size_t(devices)),
      replicas_{.last_end = std::vector<double>(size_t(replicas))} {}

void Summary::go_on_from(int64_t samples, double seconds, int64_t step, int64_t open_steps) {
  replicas_.open = int(open_steps);
  std::fill(replicas_.last_end.begin(), replicas_.last_end.end(), seconds);
  replicas_.steps_before = step;
  replicas_.seconds_before = seconds;
  samples_ = samples;
  seconds_ = seconds;
}

/// Begins the curve's next point.
void Summary::open_point() {
  replicas_.open = replicas_.open_here = 0;
  replicas_.open_samples = 0;
  replicas_.open_loss = replicas_.open_rate = replicas_.open_norm = 0;
  replicas_.open_has_norms = true;
}

/// Returns the norm of the gradient that the step completed. Where batches overlap, workers update with a batch in
/// different steps: its square is complete when the last of them has.
std::optional<double> Summary::gradient_norm_after(const StepRecord& entry) {
  if (entry.plan != plan_) squares_.clear();  // the pipeline was drained
  plan_ = entry.plan;
  std::optional<double> norm;
  for (const StepOutcome& outcome : entry.outcomes) {
    if (!outcome.gradient_squares) continue;
    Squares& squares = squares_[outcome.updated_step];
    squares.sum += *outcome.gradient_squares;
    if (++squares.workers < entry.outcomes.size()) continue;
    norm = std::sqrt(squares.sum);
    squares_.erase(outcome.updated_step);
  }
  return norm;
}

std::optional<CurvePoint> Summary::add_replica_step(const StepRecord& entry, double learning_rate) {
  const double end = entry.end(), loss = entry.loss_sum();
  steps_.push_back(end - replicas_.last_end[size_t(entry.replica)]);
  replicas_.of_step.push_back(entry.replica);
  replicas_.last_end[size_t(entry.replica)] = end;
  seconds_ = std::max(seconds_, end);
  samples_ += entry.samples;
  if (std::isfinite(loss)) {  // otherwise a client's update is refused, and the run continues
    replicas_.open_samples += entry.samples;
    replicas_.open_loss += loss;
  }
  const std::optional<double> norm = gradient_norm_after(entry);
  replicas_.open_rate += learning_rate;
  replicas_.open_norm += norm.value_or(0);
  replicas_.open_has_norms = replicas_.open_has_norms && norm;
  ++replicas_.open_here;
  if (++replicas_.open < int(replicas_.last_end.size())) return std::nullopt;
  const double mean = replicas_.open_samples > 0 ? replicas_.open_loss / double(replicas_.open_samples) : NAN;
  const auto steps = double(replicas_.open_here);
  curve_.push_back({.step = replicas_.steps_before + int64_t(curve_.size()) + 1,
                    .samples = samples_,
                    .seconds = seconds_,
                    .loss = mean,
                    .learning_rate = replicas_.open_rate / steps});
  if (replicas_.open_has_norms) curve_.back().gradient_norm = replicas_.open_norm / steps;
  open_point();
  return curve_.back();
}

std::optional<CurvePoint> Summary::add_step(const StepRecord& entry, int64_t samples, double learning_rate) {
  if (!replicas_.last_end.empty()) return add_replica_step(entry, learning_rate);
  if (entry.outcomes.size() > size_t(devices_)) {
    devices_ = int(entry.outcomes.size());
    for (std::vector<double>* sums : {&compute_, &load_, &exposed_, &hidden_}) sums->resize(size_t(devices_));
  }
  const double begin = last_end_ < 0 ? entry.begin() : last_end_;
  const double step_seconds = entry.end() - begin;
  last_end_ = entry.end();
  steps_.push_back(step_seconds);
  samples_ += samples;
  seconds_ += step_seconds;
  if (int64_t(steps_.size()) > warmup_steps(total_steps_)) {
    measured_seconds_ += step_seconds;
    measured_samples_ += samples;
    CoreTimes cores;
    for (size_t d = 0; d < entry.outcomes.size(); ++d) {
      const double load = d < entry.load_seconds.size() ? entry.load_seconds[d] : 0;
      compute_[d] += std::max(0.0, entry.outcomes[d].compute_seconds - load);
      load_[d] += load;
      exposed_[d] += entry.outcomes[d].exposed_seconds;
      hidden_[d] += entry.outcomes[d].hidden_seconds;
      bytes_ += entry.outcomes[d].bytes_sent;
      cores += entry.outcomes[d].core_times;
    }
    if (const std::optional<double> core = cores.mean()) core_steps_.push_back(*core);
  }
  noise_scale_.add(norms_of(entry), samples);
  if (!entry.outcomes[0].events.empty()) {
    timeline_.emplace(Timeline{entry.step, int(entry.outcomes.size()), {}});
    for (const StepOutcome& outcome : entry.outcomes)
      for (Event event : outcome.events) {
        event.begin -= entry.begin();
        event.end -= entry.begin();
        timeline_->events.push_back(std::move(event));
      }
  }
  curve_.push_back({.step = entry.step,
                    .samples = samples_,
                    .seconds = seconds_,
                    .loss = entry.loss_sum() / double(samples),
                    .learning_rate = learning_rate,
                    .gradient_norm = gradient_norm_after(entry)});
  return curve_.back();
}

EvaluationPoint Summary::add_evaluation(const StepRecord& entry) {
  last_end_ = -1;
  squares_.clear();  // the pipeline was drained
  EvaluationPoint point = evaluation_of(entry, goal_.task, goal_.classes, test_samples_);
  const bool of_replicas = !replicas_.last_end.empty();  // the replicas continued training meanwhile
  point.samples = of_replicas ? entry.samples : samples_;
  point.epoch = double(point.samples) / double(train_samples_);
  point.seconds = of_replicas ? entry.seconds : seconds_;
  evaluations_.push_back(point);
  return point;
}

void Summary::write_curve(RunResult& result) const {
  result.curve = curve_;
  result.evaluations = evaluations_;
  std::stable_sort(result.evaluations.begin(), result.evaluations.end(),
                   [](const auto& a, const auto& b) { return a.samples < b.samples; });
  result.timeline = timeline_;
  result.target = experiment_.target;
  result.noise_scale = noise_scale_.noise_scale();
  if (!core_steps_.empty()) result.core_seconds = median(core_steps_);
  if (!result.evaluations.empty()) result.test = result.evaluations.back();
  result.to_target = reached_before_;
  for (size_t k = 0; !result.to_target && k < result.evaluations.size(); ++k)
    if (const std::optional<TargetReached> reached = reached_by(result.evaluations[k], experiment_.target))
      result.to_target = reached->after;
}

void Summary::write(RunResult& result) const {
  write_curve(result);
  const auto skipped = size_t(warmup_steps(total_steps_));
  if (steps_.size() <= skipped || measured_seconds_ <= 0) return;
  const std::vector<double> steps(steps_.begin() + std::ptrdiff_t(skipped), steps_.end());
  result.step_seconds = step_seconds_of(steps);
  result.measured_steps = steps;
  // Throughput and epoch follow from the median step too, so that no column ranks rows in another order than the time
  // per step does. An epoch's last step may be short: samples per step are a mean.
  if (result.step_seconds->median > 0) {
    result.samples_per_second = double(measured_samples_) / double(steps.size()) / result.step_seconds->median;
    result.epoch_seconds = double(train_samples_) / *result.samples_per_second;
  }
  double loading = 0, exposed = 0, hidden = 0;
  result.busy_share.clear();
  for (size_t d = 0; d < size_t(devices_); ++d) {
    result.busy_share.push_back(std::min(1.0, compute_[d] / measured_seconds_));
    loading += load_[d] / measured_seconds_ / devices_;
    exposed += exposed_[d] / measured_seconds_ / devices_;
    hidden += hidden_[d] / measured_seconds_ / devices_;
  }
  result.loading_share = std::min(1.0, loading);
  result.exposed_communication = std::min(1.0, exposed);
  result.hidden_communication = std::min(1.0, hidden);
  result.bytes_per_step = bytes_ / devices_ / int64_t(steps.size());
}

/// Returns the seconds of the steps without the first `skipped` of each replica.
std::vector<double> Summary::replica_steps(int64_t skipped) const {
  std::vector<int64_t> made(replicas_.last_end.size());
  std::vector<double> steps;
  for (size_t i = 0; i < steps_.size(); ++i)
    if (++made[size_t(replicas_.of_step[i])] > skipped) steps.push_back(steps_[i]);
  return steps;
}

/// Shares and bytes of each device. Modelled time is known of whole replicas only: their shares are those of each of
/// their devices. `seconds`: of the run.
void Summary::write_devices(std::span<const HubCounts> counts, std::span<const InnerWork> inner, double seconds,
                            RunResult& result) const {
  const size_t workers = inner.empty() ? 1 : inner.size() / counts.size();  // of a replica
  const int64_t devices = int64_t(counts.size() * workers);
  double exchange = 0, exposed = 0;
  int64_t bytes = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    exchange += counts[r].exchange_seconds;
    bytes += counts[r].bytes_sent;
    for (size_t w = 0; w < workers; ++w) {
      const InnerWork work = inner.empty() ? InnerWork{} : inner[r * workers + w];
      const bool is_known = work.compute_seconds > 0 && !experiment_.replicas.clock;
      const double compute = is_known ? work.compute_seconds : counts[r].compute_seconds;
      result.busy_share.push_back(std::min(1.0, compute / seconds));
      exposed += is_known ? work.exposed_seconds : 0;
      bytes += work.bytes_sent;
    }
  }
  const double shares = exchange / double(counts.size()) + exposed / double(devices);
  result.exposed_communication = std::min(1.0, shares / seconds);
  // Replicas step on their own, workers of the policy synchronous together.
  result.bytes_per_step = bytes * int64_t(replicas_.last_end.size()) / devices / int64_t(steps_.size());
}

void Summary::write(std::span<const HubCounts> counts, RunResult& result, std::span<const InnerWork> inner) const {
  write_curve(result);
  const double seconds = result.evaluations.empty()
                             ? seconds_
                             : std::max(seconds_, result.evaluations.back().seconds);  // including the last exchange
  const double own_seconds = seconds - replicas_.seconds_before;
  if (steps_.empty() || own_seconds <= 0) return;
  // In modelled time first steps take no longer than others.
  const int64_t points = int64_t(curve_.size()), skipped = experiment_.replicas.clock ? 0 : warmup_steps(points);
  result.measured_steps = replica_steps(skipped);
  result.step_seconds = step_seconds_of(result.measured_steps);
  // Replicas step on their own, wait for each other and exchange between steps: only the whole run has a throughput.
  const CurvePoint begin = skipped > 0 ? curve_[size_t(skipped - 1)] : CurvePoint{};
  result.samples_per_second = double(samples_ - begin.samples) / (seconds - begin.seconds);
  result.step_seconds->mean = double(experiment_.batch) / *result.samples_per_second;
  const auto reported = [](const HubCounts& c) { return c.compute_seconds > 0; };
  const bool is_reported = std::any_of(counts.begin(), counts.end(), reported);  // else processes were ended before
  ReplicaReport report;
  report.replicas = int(counts.size());
  report.clock = experiment_.replicas.clock ? "modelled" : "real";
  double idle = 0;
  for (const HubCounts& c : counts) {
    idle += c.idle_seconds;
    report.bytes += c.bytes_sent;
    if (c.staleness.size() > report.staleness.size()) report.staleness.resize(c.staleness.size());
    for (size_t k = 0; k < c.staleness.size(); ++k) report.staleness[k] += c.staleness[k];
  }
  report.idle_share = is_reported ? idle / (own_seconds * report.replicas) : NAN;
  if (result.test) report.own = result.test->own;
  result.replicas = std::move(report);
  if (is_reported) write_devices(counts, inner, own_seconds, result);
}

}  // namespace trireme
