#include "train/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

/// Forecasts are off by less than this factor, or it is not their common error.
constexpr double kGreatestScale = 2;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

const Forecast& forecast_of(const std::vector<Forecast>& forecasts, const std::string& name) {
  const auto found = std::find_if(forecasts.begin(), forecasts.end(), [&](const Forecast& f) { return f.name == name; });
  check_internal(found != forecasts.end(), "the current plan is a candidate");
  return *found;
}

}  // namespace

PlanAdapter::PlanAdapter(Forecaster& forecaster, std::string current, const LinkEstimate& links, const AdaptationOptions& options)
    : forecaster_(forecaster), options_(options), current_(std::move(current)), links_(links),
      expected_(forecast_of(forecaster.forecasts(links, current_), current_).step_seconds), settling_(options.settling) {}

Adapter::Wish PlanAdapter::after_step(const MeasuredStep& step) {
  if (step.plan != plan_) {
    plan_ = step.plan;
    settle();
  }
  if (step.links) {
    measuring_ = false;
    if (step.links->bandwidth > 0) links_ = *step.links;  // one worker has none to measure
    settle();
    return replan(step);
  }
  if (measuring_) return {};
  if (settling_ > 0) {
    --settling_;
    return {};
  }
  window_.push_back(step.seconds);
  if (int(window_.size()) < options_.window) return {};
  observed_ = median(std::exchange(window_, {}));
  const bool is_off = std::abs(observed_ - expected_) > options_.off * expected_;
  strikes_ = is_off ? strikes_ + 1 : 0;
  if (!is_off) remember(observed_);
  if (strikes_ < options_.windows) return {};
  measuring_ = true;
  return {.links = true, .change = {}};
}

Adapter::Wish PlanAdapter::replan(const MeasuredStep& step) {
  remember(observed_);
  const std::vector<Forecast> forecasts = forecaster_.forecasts(links_, current_);
  const double own = forecast_of(forecasts, current_).step_seconds;
  const double scale = own > 0 ? std::clamp(observed_ / own, 1 / kGreatestScale, kGreatestScale) : 1;
  const Forecast* best = nullptr;
  for (const Forecast& f : forecasts)
    if (f.name != current_ && (!best || seconds_of(f, scale) < seconds_of(*best, scale))) best = &f;
  expected_ = observed_;
  if (!best) return {};
  const double seconds = seconds_of(*best, scale), saved = (observed_ - seconds) * double(step.steps_left);
  const double moving = (links_.bandwidth > 0 ? double(best->bytes_to_move) / links_.bandwidth : 0) + links_.latency + options_.rebuilding;
  if (saved <= moving || seconds >= (1 - options_.gain) * observed_) return {};
  const std::string reason = fmt::format("a step took {}, {} is expected to take {} over links of {}/s", format_seconds(observed_),
                                         best->name, format_seconds(seconds), format_bytes(int64_t(std::llround(links_.bandwidth))));
  current_ = best->name;
  expected_ = seconds;
  return {.links = false, .change = PlanSwitch{forecaster_.plan(current_), reason}};
}

/// The current plan's seconds under links as they were last measured.
void PlanAdapter::remember(double seconds) {
  std::vector<Known>& known = known_[current_];
  std::erase_if(known, [&](const Known& k) { return std::abs(k.bandwidth - links_.bandwidth) <= options_.same_links * links_.bandwidth; });
  known.push_back({links_.bandwidth, seconds});
}

double PlanAdapter::seconds_of(const Forecast& forecast, double scale) const {
  const auto known = known_.find(forecast.name);
  if (known != known_.end())
    for (const Known& k : known->second)
      if (std::abs(k.bandwidth - links_.bandwidth) <= options_.same_links * links_.bandwidth) return k.seconds;
  return forecast.step_seconds * scale;
}

void PlanAdapter::settle() {
  settling_ = options_.settling;
  strikes_ = 0;
  window_.clear();
}

}  // namespace trireme
