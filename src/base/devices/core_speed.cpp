#include "base/devices/core_speed.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kInterrupted = 4;                      // times the fastest: another thread had the core
constexpr size_t kSize = 16, kFirst = 16, kTimes = 16;  // products of square matrices
constexpr int kParts = 3;                               // of the piece of work, each with kTimes products

/// Less than 4 KiB in one place, so that each line has a set of the first cache of its own. With lines that share sets
/// some threads of an AMD EPYC took 1.2 to 1.6 times as long for their whole life. The probable cause: its cores tell
/// lines of one set apart by a hash of the address (Lipp et al., "Take A Way", 2020).
struct alignas(64) Matrices {
  std::array<float, kSize*kSize> left = {}, right = {}, sum = {};
};
static_assert(sizeof(Matrices) < 4096);

/// Multiplies matrices `times` times. Returns a value that depends on all of them, so that no compiler leaves them out.
float work(size_t times) {
  thread_local Matrices m;
  m.sum = {};
  for (size_t time = 0; time < times; ++time) {
    m.left[time] = m.right[time] = 1;   // the compiler must not compute one product for all
    for (size_t k = 0; k < kSize; ++k)  // outermost: no sum waits for the one before it
      for (size_t i = 0; i < kSize; ++i) {
        const float factor = m.left[i * kSize + k];
        for (size_t j = 0; j < kSize; ++j) m.sum[i * kSize + j] += factor * m.right[k * kSize + j];
      }
  }
  return m.sum[0];
}

}  // namespace

CoreTimes& CoreTimes::operator+=(const CoreTimes& other) {
  seconds += other.seconds;
  count += other.count;
  return *this;
}

std::optional<double> CoreTimes::mean() const {
  return count > 0 ? std::optional(seconds / double(count)) : std::nullopt;
}

bool CoreSpeed::measure(double now) {
  if (now < due_) return false;
  [[maybe_unused]] volatile float result = work(kFirst);  // fills the cache
  // An interrupt of a few microseconds hits one part: the median is that of the core.
  std::array<double, kParts> parts = {};
  double end = steady_seconds();
  for (double& part : parts) {
    const double begin = end;
    result = work(kTimes);
    end = steady_seconds();
    part = end - begin;
  }
  std::sort(parts.begin(), parts.end());
  const double seconds = kParts * parts[kParts / 2];
  due_ = end + interval_;
  fastest_ = fastest_ > 0 ? std::min(fastest_, seconds) : seconds;
  if (seconds < kInterrupted * fastest_) times_ += {seconds, 1};
  return true;
}

CoreTimes CoreSpeed::take() { return std::exchange(times_, {}); }

}  // namespace trireme
