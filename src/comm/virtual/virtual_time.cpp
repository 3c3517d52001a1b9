#include "comm/virtual/virtual_time.h"

#include <algorithm>

#include "trireme/error.h"

namespace trireme {
namespace {

/// The runner that the calling thread runs as.
struct Seat {
  const VirtualTime* time = nullptr;
  int runner = -1;
};
thread_local Seat seat;
thread_local VirtualTime::Untimed::What untimed = VirtualTime::Untimed::What::nothing;

bool waits_are_untimed() { return untimed == VirtualTime::Untimed::What::everything; }

}  // namespace

VirtualTime::VirtualTime(int ranks, std::unique_ptr<TransferTimes> transfers, std::string kind)
    : clock_(ranks, std::move(kind)),
      transfers_(std::move(transfers)),
      free_(transfers_ ? size_t(transfers_->connections()) : 0) {}

int VirtualTime::runner() const {
  check_internal(seat.time == this, "modelled time passes for threads that have entered it");
  return seat.runner;
}

void VirtualTime::enter(int runner) {
  seat = {this, runner};
  try {
    clock_.enter(runner);
  } catch (const Error&) {  // aborted: the thread's first operation throws the reason
  }
}

void VirtualTime::go_on_as(int runner) const { seat = {this, runner}; }

void VirtualTime::leave() noexcept {
  if (seat.time != this) return;
  const int runner = std::exchange(seat, {}).runner;
  try {
    clock_.leave(runner);
  } catch (const std::exception&) {  // aborted: no thread waits for a turn any more
  }
}

void VirtualTime::advance_to(double time) {
  clock_.advance_to(runner(), waits_are_untimed() ? now() : std::max(time, now()));
}

VirtualTime::Untimed::Untimed(What what) : before_(std::exchange(untimed, what)) {}
VirtualTime::Untimed::~Untimed() { untimed = before_; }

double VirtualTime::wait_for(const std::atomic<int64_t>& counter, int64_t target, std::string waits_for,
                             double deadline) {
  if (counter.load() >= target) return 0;
  const double began = now();
  const int me = runner();
  {
    MutexLock lock(mutex_);
    waiting_.push_back({me, &counter, target, waits_are_untimed()});
  }
  clock_.block(me, std::move(waits_for), deadline);
  if (deadline < VirtualClock::kNever) {  // the wait may have ended without a wake
    MutexLock lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.runner == me; });
  }
  return now() - began;
}

void VirtualTime::advance(std::atomic<int64_t>& counter, int64_t by) {
  // the counter's owner may destroy it after others have seen the new value
  const int64_t value = counter.fetch_add(by) + by;
  MutexLock lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.counter != &counter || waiting.target > value) return false;
    const double own = clock_.time(waiting.runner);
    clock_.wake(waiting.runner, waiting.untimed ? own : std::max(own, now()));
    return true;
  });
}

/// Real connections are shared by concurrent transfers. So a connection that is still busy does not delay the other
/// connections of the same transfer.
double VirtualTime::carry(const ModelledTransfer& transfer) {
  const double begin = now();
  if (untimed != Untimed::What::nothing) return begin;
  double end = begin;
  for (const auto& [connection, seconds] : transfer.busy) {
    double& free = free_.at(size_t(connection));
    free = std::max(begin, free) + seconds;
    end = std::max(end, free);
  }
  return end + transfer.latency;
}

double VirtualTime::message(int from, int to, int64_t bytes) {
  return transfers_ && from != to ? carry(transfers_->message(from, to, bytes)) : now();
}

double VirtualTime::collective(Collective collective, std::span<const int> ranks, int64_t bytes) {
  const bool moves = transfers_ && ranks.size() > 1 && collective != Collective::barrier;
  return moves ? carry(transfers_->collective(collective, ranks, bytes)) : now();
}

}  // namespace trireme
