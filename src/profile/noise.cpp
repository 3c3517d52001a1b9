#include "profile/noise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/memory.h"
#include "base/mutex.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr int64_t kDrawn = 1 << 14;  // values, repeated
constexpr int64_t kPool = 1 << 22;   // more than a core's own caches hold
constexpr int64_t kPoolOnGpus = 1 << 20;
constexpr uint64_t kKey = 7;

const at::Tensor& pool_of(c10::ScalarType type) {
  static const std::array<at::Tensor, 3> pools = [] {
    const DeviceScope no_device(kNoDevice);
    at::Tensor drawn = at::empty({kDrawn}, at::kDouble);
    const Philox random(kKey);
    for (int64_t i = 0; i < kDrawn; ++i) drawn.data_ptr<double>()[i] = random.normal(uint64_t(i));
    const at::Tensor all = drawn.repeat({kPool / kDrawn});
    return std::array{all.to(at::kFloat), all.to(at::kBFloat16), all};
  }();
  return pools[type == at::kDouble ? 2 : type == at::kBFloat16 ? 1 : 0];
}

/// The pool on another device than the CPU.
at::Tensor pool_on(c10::Device place, c10::ScalarType type) {
  using Pools = std::map<std::pair<int, c10::ScalarType>, at::Tensor>;  // by the index of the device
  static Mutex mutex;
  static Pools& pools = *new Pools;  // never destroyed: at the program's end the device may be gone first
  MutexLock lock(mutex);
  at::Tensor& pool = pools[{place.index(), type}];
  if (!pool.defined()) {
    const at::Tensor host = pool_of(type).narrow(0, 0, kPoolOnGpus);
    const DeviceScope no_device(kNoDevice);
    pool = host.to(place);
  }
  return pool;
}

/// Copies from the pool, starting where this thread stopped last time.
void copy_numbers(at::Tensor& flat) {
  thread_local int64_t next = int64_t(std::hash<std::thread::id>{}(std::this_thread::get_id()) % kPool);
  if (!on_host(flat)) {
    const at::Tensor pool = pool_on(flat.device(), flat.scalar_type());
    for (int64_t done = 0; done < flat.numel();) {
      next %= kPoolOnGpus;
      const int64_t count = std::min(kPoolOnGpus - next, flat.numel() - done);
      flat.narrow(0, done, count).copy_(pool.narrow(0, next, count));
      done += count;
      next += count;
    }
    return;
  }
  const at::Tensor& pool = pool_of(flat.scalar_type());
  const int64_t item = pool.element_size();
  auto* to = static_cast<char*>(flat.data_ptr());
  const auto* from = static_cast<const char*>(pool.data_ptr());
  for (int64_t done = 0; done < flat.numel();) {
    const int64_t count = std::min(kPool - next, flat.numel() - done);
    std::memcpy(to + done * item, from + next * item, size_t(count * item));
    done += count;
    next = (next + count) % kPool;
  }
}

at::Tensor integers(int64_t count, int64_t below, c10::ScalarType type) {
  const Philox random(kKey);
  at::Tensor drawn = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i)
    drawn.data_ptr<int64_t>()[i] = std::min(below - 1, int64_t(random.uniform(uint64_t(i)) * double(below)));
  return drawn.to(type);
}

}  // namespace

void fill_with_noise(at::Tensor& tensor, double deviation, int64_t below) {
  at::Tensor flat = tensor.as_strided({tensor.numel()}, {1});
  if (flat.numel() == 0) return;
  if (below == 0) {
    copy_numbers(flat);
    if (deviation != 1) flat.mul_(deviation);
    return;
  }
  const at::Tensor drawn = integers(std::min(kDrawn, flat.numel()), below, flat.scalar_type());
  for (int64_t done = 0; done < flat.numel(); done += kDrawn) {
    const int64_t count = std::min(kDrawn, flat.numel() - done);
    flat.narrow(0, done, count).copy_(drawn.narrow(0, 0, count));
  }
}

}  // namespace trireme
