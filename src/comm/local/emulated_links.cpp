#include "comm/local/emulated_links.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {

int rounds_of(Collective collective, int n) {
  if (n < 2) return 0;
  const int ring = n - 1, doubling = int(std::ceil(std::log2(double(n))));
  switch (collective) {
    case Collective::all_reduce: return 2 * std::min(ring, doubling);
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::broadcast: return std::min(ring, doubling);
    case Collective::all_to_all: return ring;
    case Collective::barrier: break;
  }
  return 0;
}

EmulatedLinks::EmulatedLinks(int workers, LinkSchedule schedule)
    : schedule_(std::move(schedule)),
      speed_(schedule_.at_first),
      out_free_(size_t(workers)),
      in_free_(size_t(workers)) {}

void EmulatedLinks::begin_step(int64_t step) {
  MutexLock lock(mutex_);
  for (; next_change_ < schedule_.changes.size() && schedule_.changes[next_change_].at_step <= step; ++next_change_)
    speed_ = schedule_.changes[next_change_].speed;
}

LinkSpeed EmulatedLinks::speed() const {
  MutexLock lock(mutex_);
  return speed_;
}

EmulatedLinks::Time::duration EmulatedLinks::seconds(double s) const {
  return std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(s));
}

EmulatedLinks::Time::duration EmulatedLinks::transfer(int64_t bytes) const {
  return seconds(speed_.bandwidth > 0 ? double(bytes) / speed_.bandwidth : 0);
}

EmulatedLinks::Time EmulatedLinks::message(int from, int to, int64_t bytes) {
  const Time now = std::chrono::steady_clock::now();
  if (from == to) return now;
  MutexLock lock(mutex_);
  Time& out = out_free_.at(size_t(from));
  Time& in = in_free_.at(size_t(to));
  out = in = std::max({now, out, in}) + transfer(bytes);
  return out + seconds(speed_.latency);
}

EmulatedLinks::Time EmulatedLinks::collective(std::span<const int> ranks, std::span<const int64_t> bytes, int rounds) {
  Time last = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  if (rounds == 0) return last;
  const Time begin = last;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Time& out = out_free_.at(size_t(ranks[i]));
    Time& in = in_free_.at(size_t(ranks[i]));
    out = in = std::max({begin, out, in}) + transfer(bytes[i]);
    last = std::max(last, out);
  }
  return last + seconds(speed_.latency * rounds);
}

}  // namespace trireme
