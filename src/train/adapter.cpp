#include "train/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "base/units.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Largest factor that is accepted as a common error of all forecasts.
constexpr double kGreatestScale = 2;
/// Relative error that forecasts of one worker's compute time, compared with the others, may have.
constexpr double kWorkerError = 0.5;
/// Number of observations of which the expected compute time of workers is the mean.
constexpr int kBaseline = 4;
/// Share of a step. A worker that computes for less gives too little information.
constexpr double kLeastCompute = 0.05;
/// Latencies that differ by a smaller factor, or by a smaller share of a step, are considered equal, because waking up
/// is part of them.
constexpr double kSameLatency = 3, kLatencyOfStep = 0.05;
/// After this many consecutive measurements of links that agree neither with the known links nor with each other, the
/// measurements are discarded.
constexpr int kMostSuspicions = 4;
/// Most disappointments that count.
constexpr int kMostDisappointments = 3;
/// Slownesses are rounded to multiples of this, so that plans have readable speeds.
constexpr double kSlownessStep = 0.1;

bool differ(double a, double b, double relatively) { return std::abs(a - b) > relatively * b; }

const Forecast& forecast_of(const Outlook& outlook, const std::string& name) {
  const auto found = std::find_if(outlook.forecasts.begin(), outlook.forecasts.end(),
                                  [&](const Forecast& f) { return f.name == name; });
  check_internal(found != outlook.forecasts.end(), "the current plan is a candidate");
  return *found;
}

}  // namespace

std::string on_workers(const std::vector<int>& workers) {
  bool usual = true;
  for (size_t rank = 0; rank < workers.size(); ++rank) usual &= workers[rank] == int(rank);
  if (usual) return "";
  return fmt::format(" on {} {}", workers.size() == 1 ? "worker" : "workers", fmt::join(workers, ", "));
}

PlanAdapter::PlanAdapter(Forecaster& forecaster, std::string current, Conditions at_first,
                         const AdaptationOptions& options)
    : forecaster_(forecaster),
      options_(options),
      current_(std::move(current)),
      now_(std::move(at_first)),
      settling_(options.settling) {
  const Outlook outlook = forecaster.outlook(now_, current_);
  const Forecast& own = forecast_of(outlook, current_);
  workers_ = own.workers;
  expected_ = observed_ = forecast_ = own.step_seconds;
  expected_compute_ = own.compute;
}

Adapter::Wish PlanAdapter::after_step(const MeasuredStep& step) {
  if (step.plan != plan_) {
    plan_ = step.plan;
    settle();
  }
  const bool again = step.links && !take_links(*step.links);
  if (step.memory != now_.memory) {
    now_.memory = step.memory;
    has_changed_ = true;
    return replan(step, /*observed=*/false);
  }
  if (again) {
    measuring_ = true;
    return {.links = true};
  }
  if (step.links) return reconsider(step);
  if (measuring_) return {};
  if (settling_ > 0) {
    --settling_;
    return {};
  }
  return observe(step) ? judge(step) : Wish{};
}

/// Returns false if the links must be measured once more, because one measurement may have been disturbed.
bool PlanAdapter::take_links(const LinkEstimate& links) {
  measuring_ = false;
  settle();
  if (links.bandwidth <= 0) return true;  // a single worker has no links to measure
  const auto same = [&](const LinkEstimate& known) {
    const auto [less, more] = std::minmax(links.latency, known.latency);
    return !differ(links.bandwidth, known.bandwidth, options_.same) &&
           !(more > kSameLatency * less && more - less > kLatencyOfStep * expected_);
  };
  const bool changes = !same(now_.links) && suspected_ && same(*suspected_);
  if (!same(now_.links) && !changes && ++suspicions_ < kMostSuspicions) {
    suspected_ = links;
    return false;
  }
  suspected_.reset();
  suspicions_ = 0;
  if (changes) now_.links = links;
  has_changed_ |= changes;
  return true;
}

/// Adds a step to the window. Computes the medians and returns true when the window is full.
bool PlanAdapter::observe(const MeasuredStep& step) {
  window_.push_back(step);
  if (int(window_.size()) < options_.window) return false;
  std::vector<double> seconds;
  for (const MeasuredStep& s : window_) seconds.push_back(s.seconds);
  observed_ = median(seconds);
  compute_.clear();
  for (size_t rank = 0; rank < step.compute.size(); ++rank) {
    std::vector<double> own;
    for (const MeasuredStep& s : window_) own.push_back(s.compute[rank]);
    compute_.push_back(median(own));
  }
  window_.clear();
  return true;
}

/// Finds the workers that compute for longer or shorter than expected, relative to the others.
void PlanAdapter::compare_workers() {
  pace_ = 1;
  streaks_.resize(compute_.size());
  if (compute_.size() != expected_compute_.size()) return;
  std::vector<double> factors;
  for (size_t r = 0; r < compute_.size(); ++r)
    if (expected_compute_[r] > kLeastCompute * expected_) factors.push_back(compute_[r] / expected_compute_[r]);
  if (factors.empty()) return;
  pace_ = nth_least(factors, (factors.size() - 1) / 2);
  const double bound = std::log(1 + (confirmed_ ? options_.unequal : std::max(options_.unequal, kWorkerError)));
  for (size_t r = 0; r < compute_.size(); ++r) {
    const bool counts = expected_compute_[r] > kLeastCompute * expected_ && pace_ > 0 && compute_[r] > 0;
    const double relative = counts ? std::log(compute_[r] / expected_compute_[r] / pace_) : 0;
    Streak& streak = streaks_[r];
    if (std::abs(relative) < bound || relative * streak.log_sum < 0) streak = {};
    if (std::abs(relative) >= bound) streak = {streak.observations + 1, streak.log_sum + relative};
  }
}

bool PlanAdapter::is_slow_or_fast(size_t rank, int observations) const {
  return streaks_[rank].observations >= observations;
}

/// Estimates the slowness of the workers that differ; the others keep theirs. The fastest worker has 1; the common
/// factor goes into pace_.
void PlanAdapter::estimate_slowness() {
  std::vector<double>& slowness = now_.slowness;
  for (int worker : workers_) slowness.resize(std::max(slowness.size(), size_t(worker) + 1), 1.0);
  for (size_t r = 0; r < streaks_.size(); ++r)
    if (is_slow_or_fast(r, options_.windows))
      slowness[size_t(workers_[r])] *= std::exp(streaks_[r].log_sum / streaks_[r].observations);
  const double least = *std::min_element(slowness.begin(), slowness.end());
  pace_ *= least;
  for (double& s : slowness) s = std::max(1.0, std::round(s / least / kSlownessStep) * kSlownessStep);
  has_changed_ = true;
}

Adapter::Wish PlanAdapter::judge(const MeasuredStep& step) {
  const bool step_off = differ(observed_, expected_, options_.off);
  strikes_ = step_off ? strikes_ + 1 : 0;
  compare_workers();
  const auto any_worker = [&](int observations) {
    for (size_t rank = 0; rank < streaks_.size(); ++rank)
      if (is_slow_or_fast(rank, observations)) return true;
    return false;
  };
  const bool worker_off = any_worker(options_.windows);
  if (!step_off && !any_worker(1)) confirm();
  // The next observation will tell whether the workers or the links are the cause.
  if (!worker_off && any_worker(1)) return {};
  if (!worker_off && strikes_ < options_.windows) return {};
  if (worker_off) estimate_slowness();
  if (!step_off || !options_.probes || workers_.size() < 2) return reconsider(step);
  measuring_ = true;
  return {.links = true};
}

/// The observation is as expected.
void PlanAdapter::confirm() {
  remember(observed_);
  if (!confirmed_) baseline_ = 0;
  confirmed_ = true;
  if (baseline_ >= kBaseline || compute_.size() != expected_compute_.size()) return;
  ++baseline_;
  for (size_t r = 0; r < compute_.size(); ++r) expected_compute_[r] += (compute_[r] - expected_compute_[r]) / baseline_;
}

/// Something is off, and everything about it that can be measured has been measured.
Adapter::Wish PlanAdapter::reconsider(const MeasuredStep& step) {
  settle();
  const bool first = plan_ == 0 && !confirmed_;  // then the forecasts were wrong; nothing has changed
  if (!confirmed_ && plan_ > 0 && observed_ > expected_)
    disappointments_ = std::min(disappointments_ + 1, kMostDisappointments);
  if (has_changed_ || (!confirmed_ && !first)) return replan(step, /*observed=*/true);
  if (first) {
    accept();
    return {};
  }
  const double factor = observed_ / expected_;  // the machine as a whole: the same factor for all plans
  machine_ *= factor;
  for (auto& [name, all] : known_)
    for (Known& known : all) known.seconds *= factor;
  accept();
  return {};
}

/// Makes the observed values the expected ones.
void PlanAdapter::accept() {
  remember(observed_);
  expected_ = observed_;
  if (!compute_.empty()) expected_compute_ = compute_;
  baseline_ = 1;
  confirmed_ = true;
}

/// Returns the factor by which forecasts must be multiplied.
double PlanAdapter::scale_of(const Forecast& own) const {
  if (own.step_seconds <= 0) return 1;
  const double forecast = own.step_seconds * machine_;
  return machine_ * std::clamp(observed_ / forecast, 1 / kGreatestScale, kGreatestScale);
}

/// `observed`: called because of an observation, which was then made under the present conditions.
Adapter::Wish PlanAdapter::replan(const MeasuredStep& step, bool observed) {
  if (observed && confirmed_ && differ(pace_, 1, options_.off)) machine_ *= pace_;
  has_changed_ = false;
  const Outlook outlook = forecaster_.outlook(now_, current_);
  const Forecast& own = forecast_of(outlook, current_);
  const double scale = scale_of(own);
  const bool must = own.missing > 0;
  const Forecast* best = nullptr;
  for (const Forecast& f : outlook.forecasts) {
    if (f.name == current_ || f.missing > 0 || (best && seconds_of(f, scale) >= seconds_of(*best, scale))) continue;
    if (must || seconds_of(f, scale) < (1 - least_gain(f.name)) * observed_) best = &f;
  }
  const double seconds = best ? seconds_of(*best, scale) : 0;
  forecast_ = own.step_seconds;
  if (observed) accept();
  if (must) return leave(step, outlook, own, best, seconds, scale);
  if (!best) return {};
  const LinkEstimate& links = now_.links;
  const double saved = (observed_ - seconds) * double(step.steps_left);
  const double moving =
      (links.bandwidth > 0 ? double(best->bytes_to_move) / links.bandwidth : 0) + links.latency + options_.rebuilding;
  if (saved <= moving) return {};
  return change_to(
      *best, seconds, scale,
      fmt::format("a step took {}; under \"{}\" it is expected to take {}{}; found in {}", format_seconds(observed_),
                  best->name, format_seconds(seconds), circumstances(), format_seconds(outlook.seconds)));
}

/// The current plan no longer fits.
Adapter::Wish PlanAdapter::leave(const MeasuredStep& step, const Outlook& outlook, const Forecast& own,
                                 const Forecast* best, double seconds, double scale) {
  if (step.steps_left == 0) return {};
  if (best)
    return change_to(
        *best, seconds, scale,
        fmt::format(
            "\"{}\" lacks {} of memory; \"{}\" fits, and a step is expected to take {} instead of {}{}; found in {}",
            own.name, format_bytes(own.missing), best->name, format_seconds(seconds), format_seconds(observed_),
            circumstances(), format_seconds(outlook.seconds)));
  if (warned_of_ == now_.memory) return {};
  warned_of_ = now_.memory;
  const Forecast* nearest = &own;
  for (const Forecast& f : outlook.forecasts)
    if (f.missing < nearest->missing) nearest = &f;
  const std::string limit = format_bytes(now_.memory);
  return {
      .warning =
          nearest == &own
              ? fmt::format(
                    "after step {} no plan fits {} per worker: the run continues under \"{}\", which lacks {}, less "
                    "than any other plan",
                    step.step, limit, own.name, format_bytes(own.missing))
              : fmt::format("after step {} no plan fits {} per worker: \"{}\", the nearest, lacks {}; the run "
                            "continues under \"{}\", which lacks {}",
                            step.step, limit, nearest->name, format_bytes(nearest->missing), own.name,
                            format_bytes(own.missing))};
}

Adapter::Wish PlanAdapter::change_to(const Forecast& forecast, double seconds, double scale, std::string reason) {
  current_ = forecast.name;
  workers_ = forecast.workers;
  expected_ = observed_ = seconds;
  forecast_ = forecast.step_seconds;
  expected_compute_ = forecast.compute;
  for (double& s : expected_compute_) s *= scale;
  confirmed_ = false;
  return {.change = PlanSwitch{forecaster_.plan(current_), std::move(reason), workers_}};
}

/// Describes the conditions that are not ideal: " over links of 23 MiB/s, worker 1 computing 3.0 times as long".
std::string PlanAdapter::circumstances() const {
  std::vector<std::string> parts;
  if (now_.links.bandwidth > 0)
    parts.push_back(fmt::format("over links of {}/s", format_bytes(int64_t(std::llround(now_.links.bandwidth)))));
  for (size_t worker = 0; worker < now_.slowness.size(); ++worker)
    if (now_.slowness[worker] > 1)
      parts.push_back(fmt::format("worker {} computing {:.1f} times as long", worker, now_.slowness[worker]));
  if (now_.memory > 0) parts.push_back(fmt::format("within {} per worker", format_bytes(now_.memory)));
  return parts.empty() ? "" : fmt::format(" {}", fmt::join(parts, ", "));
}

bool PlanAdapter::alike(const Conditions& other) const {
  if (differ(other.links.bandwidth, now_.links.bandwidth, options_.same)) return false;
  const auto of = [](const Conditions& c, size_t worker) {
    return worker < c.slowness.size() ? c.slowness[worker] : 1;
  };
  for (size_t worker = 0; worker < std::max(other.slowness.size(), now_.slowness.size()); ++worker)
    if (differ(of(other, worker), of(now_, worker), options_.same)) return false;
  return true;
}

/// Stores the current plan's seconds under the present conditions.
void PlanAdapter::remember(double seconds) {
  std::vector<Known>& known = known_[current_];
  std::erase_if(known, [&](const Known& k) { return alike(k.conditions); });
  known.push_back({now_, seconds});
  if (forecast_ > 0) error_[current_] = seconds / (forecast_ * machine_);
}

double PlanAdapter::seconds_of(const Forecast& forecast, double scale) const {
  const auto known = known_.find(forecast.name);
  if (known != known_.end())
    for (const Known& k : known->second)
      if (alike(k.conditions)) return k.seconds;
  const auto error = error_.find(forecast.name);
  return forecast.step_seconds * (error == error_.end() ? scale : machine_ * error->second);
}

double PlanAdapter::least_gain(const std::string& plan) const {
  return error_.contains(plan) ? options_.gain : std::min(0.9, options_.untried * double(1 << disappointments_));
}

void PlanAdapter::settle() {
  settling_ = options_.settling;
  strikes_ = 0;
  streaks_.clear();
  window_.clear();
}

}  // namespace trireme
