#include "train/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

constexpr int64_t kWarmupSteps = 3, kWarmupShare = 10;

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * double(values.size() - 1);
  const auto low = size_t(position);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - double(low)) * (values[high] - values[low]);
}

GradientNorms norms_of(const LedgerEntry& entry) {
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

Summary::Summary(const Experiment& experiment, const Goal& goal, int devices, int64_t train_samples, int64_t test_samples,
                 int64_t total_steps)
    : experiment_(experiment), goal_(goal), devices_(devices), train_samples_(train_samples), test_samples_(test_samples),
      total_steps_(total_steps), compute_(size_t(devices)), load_(size_t(devices)), exposed_(size_t(devices)), hidden_(size_t(devices)) {}

void Summary::go_on_from(int64_t samples, double seconds) {
  samples_ = samples;
  seconds_ = seconds;
}

CurvePoint Summary::add_step(const LedgerEntry& entry, int64_t samples) {
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
    for (size_t d = 0; d < entry.outcomes.size(); ++d) {
      const double load = d < entry.load_seconds.size() ? entry.load_seconds[d] : 0;
      compute_[d] += std::max(0.0, entry.outcomes[d].compute_seconds - load);
      load_[d] += load;
      exposed_[d] += entry.outcomes[d].exposed_seconds;
      hidden_[d] += entry.outcomes[d].hidden_seconds;
      bytes_ += entry.outcomes[d].bytes_sent;
    }
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
  curve_.push_back({entry.step, samples_, seconds_, entry.loss_sum() / double(samples)});
  return curve_.back();
}

EvaluationPoint Summary::add_evaluation(const LedgerEntry& entry) {
  last_end_ = -1;
  const EvaluationSums sums{entry.metrics(), entry.loss_sum(), test_samples_, goal_.classes};
  evaluations_.push_back({.step = entry.step,
                          .samples = samples_,
                          .epoch = double(samples_) / double(train_samples_),
                          .seconds = seconds_,
                          .loss = mean_loss(goal_.task, sums),
                          .metrics = evaluation_metrics(goal_.task, sums)});
  return evaluations_.back();
}

void Summary::write(RunResult& result) const {
  result.curve = curve_;
  result.evaluations = evaluations_;
  result.timeline = timeline_;
  result.target = experiment_.target;
  result.noise_scale = noise_scale_.noise_scale();
  if (!evaluations_.empty()) result.test = evaluations_.back();
  for (const EvaluationPoint& point : evaluations_)
    // a model whose loss is no number is no good, whatever its other numbers say
    if (experiment_.target && std::isfinite(point.loss) && point.main() && reaches(*point.main(), *experiment_.target)) {
      result.to_target = ToTarget{point.step, point.epoch, point.seconds};
      break;
    }
  const auto skipped = size_t(warmup_steps(total_steps_));
  if (steps_.size() <= skipped || measured_seconds_ <= 0) return;
  const std::vector<double> steps(steps_.begin() + std::ptrdiff_t(skipped), steps_.end());
  result.step_seconds = StepSeconds{quantile(steps, 0.5), quantile(steps, 0.1), quantile(steps, 0.9)};
  result.samples_per_second = double(measured_samples_) / measured_seconds_;
  result.epoch_seconds = double(train_samples_) / *result.samples_per_second;
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

}  // namespace trireme
