#include "experiment/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/units.h"
#include "experiment/own_keys.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Kind = LearningRateSchedule::Kind;

const std::vector<std::pair<std::string, Kind>> kSchedules{{"constant", Kind::constant},
                                                           {"step", Kind::step},
                                                           {"multistep", Kind::multistep},
                                                           {"cosine", Kind::cosine},
                                                           {"polynomial", Kind::polynomial}};

const OwnKeys kOwnKeys{{"decay_every", {"step"}},
                       {"decay_at", {"multistep"}},
                       {"decay_factor", {"step", "multistep"}},
                       {"minimum_learning_rate", {"cosine", "polynomial"}},
                       {"power", {"polynomial"}}};

void read_decay(const ConfigTable& table, LearningRateSchedule& s) {
  if (s.kind == Kind::step) s.decay_every = table.require_length("decay_every");
  if (s.kind == Kind::multistep) {
    for (const std::string& text : table.get_strings("decay_at", {}))
      s.decay_at.push_back(parse_length(text, table.where("decay_at")));
    if (s.decay_at.empty())
      fail_user({table.where("decay_at"), "schedule \"multistep\"", "needs to know when to decay",
                 "write decay_at = [\"30 epochs\", \"60 epochs\"]"});
  }
  if (s.kind != Kind::step && s.kind != Kind::multistep) return;
  s.decay_factor = table.get_double("decay_factor", s.decay_factor, 0);
  if (!std::isfinite(s.decay_factor)) table.fail("decay_factor", "must be finite", "0.1 is usual");
}

/// Returns the progress from the end of the warm-up (0) to the end of the run (1).
double progress(int64_t step, int64_t warmup, int64_t total) {
  return double(step - warmup) / double(std::max<int64_t>(1, total - warmup));
}

}  // namespace

std::string name_of(Kind kind) {
  return std::find_if(kSchedules.begin(), kSchedules.end(), [&](const auto& named) { return named.second == kind; })
      ->first;
}

LearningRateSchedule read_schedule(const ConfigTable& table, double learning_rate) {
  LearningRateSchedule s;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kSchedules) names.push_back(name);
  const std::string chosen = table.get_choice("schedule", "constant", names);
  for (const auto& [name, kind] : kSchedules)
    if (name == chosen) s.kind = kind;
  refuse_keys_of_others(table, kOwnKeys, fmt::format("schedule \"{}\"", chosen), chosen);
  s.warmup = table.get_length("warmup", s.warmup);
  s.reference_batch = table.get_int("reference_batch", 0, 0);
  read_decay(table, s);
  if (s.kind == Kind::cosine || s.kind == Kind::polynomial) {
    s.minimum = table.get_double("minimum_learning_rate", 0, 0);
    if (s.minimum > learning_rate)
      table.fail("minimum_learning_rate", fmt::format("is above learning_rate = {}", learning_rate),
                 "choose a smaller value: the rate falls to it");
  }
  if (s.kind == Kind::polynomial) {
    s.power = table.get_double("power", 1, 0);
    if (!std::isfinite(s.power)) table.fail("power", "must be finite", "1 is a straight line, 2 a parabola");
  }
  return s;
}

int64_t steps_of(const Length& length, int64_t steps_per_epoch) {
  double steps = length.unit == Length::Unit::steps ? length.count : length.count * double(steps_per_epoch);
  constexpr double kMostSteps = 9e18;  // below the largest int64
  return std::max<int64_t>(1, std::llround(std::min(steps, kMostSteps)));
}

double scheduled_rate(const LearningRateSchedule& s, double rate, int64_t batch, int64_t step, int64_t total,
                      int64_t steps_per_epoch) {
  const double scale = s.reference_batch > 0 ? double(batch) / double(s.reference_batch) : 1;
  const double full = rate * scale, least = s.minimum * scale;
  const int64_t warmup = s.warmup.count > 0 ? steps_of(s.warmup, steps_per_epoch) : 0;
  if (step < warmup) return full * double(step + 1) / double(warmup);
  switch (s.kind) {
    case Kind::constant: return full;
    case Kind::step: return full * std::pow(s.decay_factor, double(step / steps_of(s.decay_every, steps_per_epoch)));
    case Kind::multistep: {
      const auto passed = std::count_if(s.decay_at.begin(), s.decay_at.end(),
                                        [&](const Length& at) { return step >= steps_of(at, steps_per_epoch); });
      return full * std::pow(s.decay_factor, double(passed));
    }
    case Kind::cosine:
      return least + (full - least) * 0.5 * (1 + std::cos(std::numbers::pi * progress(step, warmup, total)));
    case Kind::polynomial: return least + (full - least) * std::pow(1 - progress(step, warmup, total), s.power);
  }
  return full;
}

}  // namespace trireme
