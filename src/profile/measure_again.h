// Repeats measurements of layers later. A shared machine can be half as fast for some seconds, during all passes of a
// measurement. Observed on two virtual cores: a fixed piece of arithmetic on both cores at once takes 1.0 or 1.9 times
// as long as on one core. The factor holds for one to ten seconds and the threads do not migrate, as if the host had
// put both virtual cores on two physical cores or on one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "profile/measure_layers.h"

namespace trireme {

/// Layers that were measured together.
struct MeasuredGroup {
  std::string name;
  std::vector<LayerRequest> requests;
  std::vector<LayerMeasurement> measured;  ///< by request
  double core_seconds = 0;                 ///< as of measure_layers
  double seconds = 0;                      ///< duration of the measurement

  void write_to(Profile& profile, const LayerSites& sites) const;
};

/// Merges two measurements of one layer into `kept`: the faster value, separately for calls alone and with every core
/// busy. The bytes of `kept` do not change.
void keep_fastest(LayerMeasurement& kept, const LayerMeasurement& again);

/// Repeats the measurements of all groups twice, one group after another, and then of those that still look disturbed a
/// few more times, while `seconds` allow. The fastest value is used. `progress` is called with the name of each
/// measurement. Throws the run errors of layers.
void measure_again(
    const LayerSites& sites, std::span<MeasuredGroup> groups, double seconds, int threads,
    const std::function<void(const std::string&)>& progress = [](const std::string&) {});

}  // namespace trireme
