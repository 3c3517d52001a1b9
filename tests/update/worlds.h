// Steps of fixed length for the modelled clock.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "update/step_times.h"

namespace trireme {

/// Each step of a replica takes as long as the one before; the last number holds for all following replicas.
struct FixedTimes final : StepTimes {
  std::vector<double> by_replica;
  explicit FixedTimes(std::vector<double> seconds) : by_replica(std::move(seconds)) {}
  double seconds(int replica, int64_t) const override {
    return by_replica[std::min(size_t(replica), by_replica.size() - 1)];
  }
};

}  // namespace trireme
