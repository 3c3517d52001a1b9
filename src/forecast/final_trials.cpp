#include "forecast/final_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/devices/device.h"
#include "base/text.h"
#include "base/units.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kClearlySlower = 0.25;  // than the fastest of a round

bool has_fewer_parts(const Finalist* a, const Finalist* b) { return parts_of(a->rated.plan) < parts_of(b->rated.plan); }

/// True if `a` has fewer parts or, with equally many, a smaller tensor degree. Plain data parallelism comes before all
/// other plans.
bool is_plainer(const Finalist* a, const Finalist* b) {
  const auto key = [](const Plan& plan) { return std::pair(parts_of(plan), plan.layers.back().tensor); };
  return key(a->rated.plan) < key(b->rated.plan);
}

/// Returns the plan's short text without schedule and optimizer sharding. Plans with equal texts differ at most in
/// these two.
std::string without_schedule(const Finalist& finalist, const Model& model) {
  Plan plan = finalist.rated.plan;
  plan.schedule = Plan().schedule;
  plan.optimizer_sharding = OptimizerSharding::none;
  return plan.in_short(model);
}

/// Returns the finalists to try; see FinalTrials::choose.
std::vector<const Finalist*> candidates(const std::vector<Finalist>& finalists, const Model& model, int devices,
                                        const Finalist& simplest, double plainest_within) {
  std::vector<const Finalist*> usable;  // the fastest first
  for (const Finalist& finalist : finalists)
    if (finalist.fits_simulated && (devices == 0 || finalist.rated.plan.devices == devices) &&
        finalist.rated.plan.devices <= kMaxDevices && trial_rounds(finalist.simulated) > 0)
      usable.push_back(&finalist);
  if (usable.empty()) return usable;
  std::stable_sort(usable.begin(), usable.end(),
                   [](const Finalist* a, const Finalist* b) { return a->simulated < b->simulated; });
  const Finalist* const plainest = *std::min_element(usable.begin(), usable.end(), is_plainer);
  const double fastest = usable.front()->simulated;
  std::erase_if(usable, [&](const Finalist* f) { return f->simulated > (1 + FinalTrials::kWithin) * fastest; });
  std::vector<const Finalist*> chosen;
  std::vector<std::string> looks;  // of `chosen`
  const auto add = [&](const Finalist* finalist) {
    Plan looked_at = finalist->rated.plan;
    looked_at.optimizer_sharding = OptimizerSharding::none;
    std::string look = looked_at.in_short(model);
    const auto known = std::find(looks.begin(), looks.end(), look);
    if (known != looks.end()) {
      const Finalist*& alike = chosen[size_t(known - looks.begin())];
      if (parts_of(finalist->rated.plan) < parts_of(alike->rated.plan)) alike = finalist;
    } else if (chosen.size() < FinalTrials::kMostTried) {
      chosen.push_back(finalist);
      looks.push_back(std::move(look));
    }
  };
  add(usable.front());
  add(&simplest);
  add(*std::min_element(usable.begin(), usable.end(), has_fewer_parts));
  if (plainest->simulated <= (1 + plainest_within) * fastest) add(plainest);
  std::set<std::string> families;
  for (const Finalist* finalist : chosen) families.insert(without_schedule(*finalist, model));
  for (const Finalist* finalist : usable)
    if (families.insert(without_schedule(*finalist, model)).second) add(finalist);
  for (const Finalist* finalist : usable) add(finalist);
  return chosen;
}

}  // namespace

FinalTrials::FinalTrials(MeasureStep measure_step, double core_seconds, double plainest_within)
    : measure_step_(std::move(measure_step)), core_seconds_(core_seconds), plainest_within_(plainest_within) {}

size_t FinalTrials::known(const Finalist& finalist) {
  const auto found = std::find_if(tried_.begin(), tried_.end(),
                                  [&](const Tried& tried) { return is_same(tried.plan, finalist.rated.plan); });
  if (found == tried_.end()) {
    tried_.push_back({.plan = finalist.rated.plan, .predicted = finalist.simulated});
    return tried_.size() - 1;
  }
  found->predicted = finalist.simulated;
  return size_t(found - tried_.begin());
}

void FinalTrials::measure_once(Tried& tried, int rounds) {
  if (!tried.why_not.empty() || int(tried.measured.size()) >= rounds) return;
  try {
    TrialStep step = measure_step_(tried.plan);
    if (step.ran()) tried.measured.push_back(std::move(step));
    else tried.why_not = std::move(step.why_not);
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;
    tried.why_not = first_line(error);  // the run checks what predictions do not: shapes of short batches
  }
}

const Finalist* FinalTrials::choose(const std::vector<Finalist>& finalists, const Model& model, int devices) {
  last_.clear();
  last_failed_.clear();
  const Finalist* const simplest = to_run(finalists, devices);
  if (!simplest || !simplest->fits_simulated || !simplest->is_measured) return nullptr;
  const std::vector<const Finalist*> tries = candidates(finalists, model, devices, *simplest, plainest_within_);
  if (tries.size() < 2) return nullptr;

  std::vector<std::pair<const Finalist*, size_t>> left;
  left.reserve(tries.size());
  for (const Finalist* finalist : tries) left.emplace_back(finalist, known(*finalist));
  const auto seconds_of = [&](const auto& one) { return seconds(tried_[one.second]); };
  const auto fastest = [&] {
    return std::min_element(left.begin(), left.end(),
                            [&](const auto& a, const auto& b) { return seconds_of(a) < seconds_of(b); });
  };
  const int rounds = trial_rounds(simplest->simulated);
  std::vector<size_t> slower;
  for (int round = 1; round <= rounds; ++round) {
    for (const auto& [finalist, place] : left) measure_once(tried_[place], round);
    std::erase_if(left, [&](const auto& one) {
      if (tried_[one.second].why_not.empty()) return false;
      last_failed_.push_back(one.second);
      return true;
    });
    if (left.empty()) return nullptr;
    const double limit = (1 + kClearlySlower) * seconds_of(*fastest());
    std::erase_if(left, [&](const auto& one) {
      if (seconds_of(one) <= limit) return false;
      slower.push_back(one.second);
      return true;
    });
  }
  const double limit = (1 + kNoise) * seconds_of(*fastest());
  const auto chosen = std::min_element(left.begin(), left.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const auto& one) {
      return std::tuple(seconds_of(one) > limit, parts_of(one.first->rated.plan), seconds_of(one));
    };
    return key(a) < key(b);
  });
  last_.push_back(chosen->second);
  for (const auto& one : left)
    if (one.second != chosen->second) last_.push_back(one.second);
  last_.insert(last_.end(), slower.begin(), slower.end());
  return chosen->first;
}

std::string FinalTrials::take_line(const Model& model) {
  std::vector<std::string> parts, steps;
  for (const size_t place : std::exchange(last_, {})) {
    const Tried& tried = tried_[place];
    steps.push_back(fmt::format("{} took {} (predicted {})", tried.plan.in_short(model), format_seconds(seconds(tried)),
                                format_seconds(tried.predicted)));
  }
  if (!steps.empty()) parts.push_back(fmt::format("{}; the first is chosen", join(steps)));
  for (const size_t place : std::exchange(last_failed_, {}))
    parts.push_back(fmt::format("{} could not run ({})", tried_[place].plan.in_short(model), tried_[place].why_not));
  return parts.empty() ? "" : fmt::format("trial steps: {}", join(parts, "; "));
}

}  // namespace trireme
