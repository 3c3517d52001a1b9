// Adapts a strategy to fewer devices than it was written for, after devices were lost.
#pragma once

#include <optional>
#include <string>

namespace trireme {

struct FewerDevices {
  std::string strategy;  ///< in the syntax of --plan
  int devices = 0;       ///< number of devices that the strategy uses
};

/// Returns the strategy for at most `devices` devices. A named strategy is unchanged and uses all of them. Explicit
/// degrees keep tensor and pipeline, and the data degree shrinks. Returns nullopt if the tensor and pipeline degrees
/// alone need more devices, or if a strategy that no longer fits states a speed for each device. Errors (user): those
/// of parse_strategy.
std::optional<FewerDevices> on_fewer_devices(const std::string& strategy, int devices);

}  // namespace trireme
