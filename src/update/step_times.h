// How long a replica's steps take on the virtual clock.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// Implemented by whoever knows: the cost model, a measurement, or the model below. Const calls come from many threads.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  /// Seconds of the replica's 0-based step; at least 0. A function of its arguments only, so that runs can be repeated.
  virtual double seconds(int replica, int64_t step) const = 0;
};

/// Devices of given speeds whose steps vary: seconds * exp(jitter z - jitter^2 / 2), z standard normal, so that the
/// mean stays; and with `straggle_probability` a step takes `straggle_factor` times that. Drawn by counter from (seed,
/// replica, step).
struct ModelledSteps final : StepTimes {
  std::vector<double> base_seconds;  ///< by replica; the last one stands for all that follow
  double jitter = 0;
  double straggle_probability = 0;
  double straggle_factor = 1;
  uint64_t seed = 0;

  double seconds(int replica, int64_t step) const override;
};

}  // namespace trireme
