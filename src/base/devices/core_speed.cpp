#include "base/devices/core_speed.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kInterrupted = 4;                     // times the fastest: another thread had the core
constexpr size_t kSize = 32, kFirst = 2, kTimes = 12;  // products of square matrices, which fit into the first cache

/// Aligned and in one place: addresses may change the time.
struct alignas(64) Matrices {
  std::array<float, kSize*kSize> left = {}, right = {}, sum = {};
};

/// Multiplies matrices `times` times. Returns a value that depends on all of them, so that no compiler leaves them out.
float work(size_t times) {
  thread_local Matrices m;
  m.sum = {};
  for (size_t time = 0; time < times; ++time) {
    m.left[time] = m.right[time] = 1;
    for (size_t i = 0; i < kSize; ++i)
      for (size_t k = 0; k < kSize; ++k) {
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
  const double begin = steady_seconds();
  result = work(kTimes);
  const double end = steady_seconds(), seconds = end - begin;
  due_ = end + interval_;
  fastest_ = fastest_ > 0 ? std::min(fastest_, seconds) : seconds;
  if (seconds < kInterrupted * fastest_) times_ += {seconds, 1};
  return true;
}

CoreTimes CoreSpeed::take() { return std::exchange(times_, {}); }

}  // namespace trireme
