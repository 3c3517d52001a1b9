#include "profile/measure_again.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr int kLaps = 2, kMostLaps = 6;
constexpr double kDisturbed = 1.35;  // crowding of a group; layers that are limited by memory bandwidth are as slow
                                     // without disturbance
constexpr double kLapSeconds = 1;  // between two measurements of a group; in less time the machine's state would be the
                                   // same
constexpr double kShortCall = 50e-6;  // barriers increase the crowding of shorter calls

/// The mean crowding, weighted by seconds, over calls that are long enough.
double crowding_of(const MeasuredGroup& group) {
  double alone = 0, together = 0;
  for (const LayerMeasurement& m : group.measured) {
    const double seconds = m.forward.median + m.backward.median;
    if (seconds < kShortCall) continue;
    alone += seconds;
    together += seconds * m.crowding;
  }
  return alone > 0 ? together / alone : 1;
}

bool is_disturbed(const MeasuredGroup& group) { return crowding_of(group) >= kDisturbed; }

void measure_once_more(const LayerSites& sites, MeasuredGroup& group, int threads) {
  const double begin = steady_seconds();
  const std::vector<LayerMeasurement> again =
      measure_layers(sites, group.requests, {.passes = 1, .split = 0}, threads, group.core_seconds);
  for (size_t i = 0; i < again.size(); ++i) keep_fastest(group.measured[i], again[i]);
  group.seconds = steady_seconds() - begin;
}

}  // namespace

void MeasuredGroup::write_to(Profile& profile, const LayerSites& sites) const {
  for (size_t i = 0; i < requests.size(); ++i)
    profile.layers[sites.key(requests[i].node, requests[i].option, requests[i].tensor)][requests[i].samples] =
        measured[i];
}

void keep_fastest(LayerMeasurement& kept, const LayerMeasurement& again) {
  const auto alone = [](const LayerMeasurement& m) { return m.forward.median + m.backward.median; };
  const double together = std::min(alone(kept) * kept.crowding, alone(again) * again.crowding);
  if (again.forward.median < kept.forward.median) kept.forward = again.forward;
  if (again.backward.median < kept.backward.median) {
    const double scale = again.backward.median / kept.backward.median;
    kept.backward_input *= scale;
    kept.backward_weight *= scale;
    kept.backward = again.backward;
  }
  kept.crowding = alone(kept) > 0 ? std::max(1.0, together / alone(kept)) : 1;
  kept.runs += again.runs;
}

void measure_again(const LayerSites& sites, std::span<MeasuredGroup> groups, double seconds, int threads,
                   const std::function<void(const std::string&)>& progress) {
  const double begin = steady_seconds();
  for (int lap = 0; lap < kMostLaps; ++lap) {
    const double lap_begin = steady_seconds();
    bool any = false;
    for (MeasuredGroup& group : groups) {
      if (lap >= kLaps && !is_disturbed(group)) continue;
      if (steady_seconds() - begin + group.seconds > seconds) continue;
      progress(group.name + ", again");
      measure_once_more(sites, group, threads);
      any = true;
    }
    if (!any) return;
    const bool goes_on = lap + 1 < kLaps || std::any_of(groups.begin(), groups.end(), is_disturbed);
    const double rest = kLapSeconds - (steady_seconds() - lap_begin);
    if (goes_on && rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  }
}

}  // namespace trireme
