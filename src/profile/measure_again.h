// Layers measured once more, later: a machine that others use too can be half as fast for some seconds, all passes of a
// measurement long. Seen on two virtual cores: a fixed piece of arithmetic on both at once takes 1.0 or 1.9 times what
// it takes on one, without a switch between threads, for one to ten seconds, as if the host had put them on two cores
// of its own or on one.
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
  double seconds = 0;                      ///< that measuring took

  void write_to(Profile& profile, const LayerSites& sites) const;
};

/// The faster of two measurements of one layer: alone and with every core busy each by itself. `kept` becomes it; its
/// bytes stay.
void keep_fastest(LayerMeasurement& kept, const LayerMeasurement& again);

/// Measures the groups again, one after another, twice, and those that still look disturbed some times more, as long as
/// `seconds` allow; the fastest counts. `progress` hears what is being measured. Errors (run): what layers throw.
void measure_again(
    const LayerSites& sites, std::span<MeasuredGroup> groups, double seconds, int threads,
    const std::function<void(const std::string&)>& progress = [](const std::string&) {});

}  // namespace trireme
