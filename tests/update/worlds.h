// Steps of fixed length for the virtual clock.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "update/step_times.h"

namespace trireme {

/// Each replica's step takes as long as the last; the last one stands for all that follow.
struct FixedTimes final : StepTimes {
  std::vector<double> by_replica;
  explicit FixedTimes(std::vector<double> seconds) : by_replica(std::move(seconds)) {}
  double seconds(int replica, int64_t) const override {
    return by_replica[std::min(size_t(replica), by_replica.size() - 1)];
  }
};

}  // namespace trireme
