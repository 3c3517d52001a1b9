#include "base/devices/core_speed.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kInterrupted = 4;                  // times the fastest: another thread had the core
constexpr int kSize = 32, kFirst = 2, kTimes = 12;  // products of square matrices, which fit into the first cache

/// Aligned and in one place, because addresses change the time by a tenth.
struct alignas(64) Matrices {
  std::array<float, kSize*kSize> left = {}, right = {}, sum = {};
};

/// Multiplies matrices `times` times. Returns a value that depends on all of them, so that no compiler leaves them out.
float work(int times) {
  thread_local Matrices m;
  m.sum = {};
  for (int time = 0; time < times; ++time) {
    m.left[size_t(time)] = m.right[size_t(time)] = 1;
    for (int i = 0; i < kSize; ++i)
      for (int k = 0; k < kSize; ++k) {
        const float factor = m.left[size_t(i * kSize + k)];
        for (int j = 0; j < kSize; ++j) m.sum[size_t(i * kSize + j)] += factor * m.right[size_t(k * kSize + j)];
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
