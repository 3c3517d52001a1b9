// The duration of a replica's steps on the modelled clock.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// Implemented by the cost model, by a measurement, or by the model below. Const calls may come from many threads.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  /// Returns the duration, in seconds, of the replica's 0-based step; at least 0. A function of its arguments only, so
  /// that runs are repeatable.
  virtual double seconds(int replica, int64_t step) const = 0;
};

/// Devices of given speeds whose steps vary: seconds * exp(jitter z - jitter^2 / 2), z standard normal, so that the
/// mean is unchanged. With `straggle_probability` a step takes `straggle_factor` times as long. Drawn by counter from
/// (seed, replica, step).
struct ModelledSteps final : StepTimes {
  std::vector<double> base_seconds;  ///< by replica; the last one also applies to all further replicas
  double jitter = 0;
  double straggle_probability = 0;
  double straggle_factor = 1;
  uint64_t seed = 0;

  double seconds(int replica, int64_t step) const override;
};

}  // namespace trireme
