// A strategy for fewer devices than it was written for: what is left when some are lost.
#pragma once

#include <optional>
#include <string>

namespace trireme {

struct FewerDevices {
  std::string strategy;  ///< as --plan takes it
  int devices = 0;       ///< that it uses
};

/// The strategy on at most `devices`: a name stays as it is and takes them all; degrees that are spelled out keep
/// tensor and pipeline, and the data degree shrinks. nullopt: its tensor and pipeline degrees alone take more, or it
/// names a speed for each device. Errors (user): those of parse_strategy.
std::optional<FewerDevices> on_fewer_devices(const std::string& strategy, int devices);

}  // namespace trireme
