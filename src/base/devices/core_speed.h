// How fast cores are at the moment. Other programs, other virtual machines and the processor's clock change it by tens
// of per cent within seconds, on some machines for minutes, and a training step takes so much more or less time.
#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

/// How long a fixed piece of work took: arithmetic on data in a core's first cache.
struct CoreTimes {
  double seconds = 0;  ///< sum
  int64_t count = 0;

  CoreTimes& operator+=(const CoreTimes& other);
  std::optional<double> mean() const;  ///< seconds; nullopt if nothing was measured
};

/// Measures the core on which a thread computes, beside the thread's own work. Belongs to one thread.
class CoreSpeed {
 public:
  /// The piece of work takes about 0.04 ms, and is due every `interval` seconds.
  explicit CoreSpeed(double interval = 0.02) : interval_(interval) {}

  /// Does the piece of work if it is due. Returns true if it did. `now`: steady_seconds().
  bool measure(double now);
  /// Returns what was measured since the last call. Measurements that another thread interrupted are left out.
  CoreTimes take();

 private:
  const double interval_;
  double due_ = 0;
  double fastest_ = 0;  // seconds; 0: nothing was measured
  CoreTimes times_;
};

}  // namespace trireme
