#include "comm/local/local_state.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "comm/group_member.h"
#include "comm/local/emulated_links.h"
#include "comm/local/local_group.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// About the time that putting a thread to sleep and waking it takes.
constexpr std::chrono::microseconds kSpin{20};
constexpr int kPausesPerLook = 8;
constexpr std::chrono::milliseconds kPoll{20};  // interval at which a long sleep checks for an abort
constexpr double kFarAway = 1e6;                // seconds; a wait beyond this has no time limit

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

LocalState::Time time_of(double virtual_seconds) {
  return LocalState::Time(
      std::chrono::duration_cast<LocalState::Time::duration>(std::chrono::duration<double>(virtual_seconds)));
}

double virtual_seconds_of(LocalState::Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// Returns the bytes of the whole tensor, or for an all_to_all of what one rank holds; see TransferTimes.
int64_t whole_bytes(const LocalGroup& group) {
  const auto sum_of = [](const std::vector<at::Tensor>& tensors) {
    const std::vector<int64_t> each = bytes_of_each(tensors);
    return std::accumulate(each.begin(), each.end(), int64_t{0});
  };
  const LocalCall& first = group.calls.front();
  if (first.collective == Collective::all_gather) return sum_of(first.outputs);
  int64_t bytes = 0;  // the parts' sizes may differ
  for (const LocalCall& call : group.calls) bytes = std::max(bytes, sum_of(call.inputs));
  return bytes;
}

}  // namespace

LocalState::LocalState(int size, std::shared_ptr<EmulatedLinks> links)
    : size_(size),
      // otherwise the awaited thread may need this core
      may_spin_(size <= static_cast<int>(std::thread::hardware_concurrency())),
      links_(std::move(links)),
      mailboxes_(size) {}

void LocalState::abort(const std::string& reason) {
  {
    MutexLock lock(reason_mutex_);
    if (aborted_) return;
    reason_ = reason;
    aborted_ = true;
  }
  if (virtual_time_) virtual_time_->abort(reason);
  for (Lot& lot : lots_) {
    { MutexLock lock(lot.mutex); }  // a thread between its last check and its sleep holds the mutex
    lot.changed.notify_all();
  }
}

std::string LocalState::abort_reason() const {
  MutexLock lock(reason_mutex_);
  return reason_;
}

void LocalState::throw_if_aborted() const {
  if (!aborted()) return;
  throw StoppedError(
      {.where = "", .what = "communication between the workers was stopped", .why = abort_reason(), .next = ""});
}

LocalState::Lot& LocalState::lot_of(const void* counter) {
  const auto address = reinterpret_cast<uintptr_t>(counter);
  return lots_[(address / 64 * 0x9E3779B97F4A7C15ull) >> 58];
}

double LocalState::wait_for(const std::atomic<int64_t>& counter, int64_t target, double until, const char* what) {
  if (counter.load(std::memory_order_acquire) >= target) {
    throw_if_aborted();
    return 0;
  }
  if (virtual_time_) return wait_for_turn(counter, target, until, what);
  const Clock::time_point start = Clock::now();
  if (!spin(counter, target)) sleep(counter, target, until);
  throw_if_aborted();
  return seconds_since(start);
}

double LocalState::wait_for_turn(const std::atomic<int64_t>& counter, int64_t target, double until, const char* what) {
  double waited = 0;
  try {
    waited = virtual_time_->wait_for(counter, target, what, until);
  } catch (const Error& error) {
    abort(first_line(error));  // all ranks wait for each other; does nothing if an abort ended the wait
  }
  throw_if_aborted();
  return waited;
}

double LocalState::now() const { return virtual_time_ ? virtual_time_->now() : steady_seconds(); }

void LocalState::live_by(std::shared_ptr<VirtualTime> time) {
  virtual_time_ = std::move(time);
  move_beside_computing();
}

LocalState::Time LocalState::message_there(int from, int to, int64_t bytes) {
  if (virtual_time_) return time_of(virtual_time_->message(from, to, bytes));
  return links_ ? links_->message(from, to, bytes) : Time{};
}

LocalState::Time LocalState::carried(const LocalGroup& group) {
  const Collective collective = group.calls.front().collective;
  if (virtual_time_) return time_of(virtual_time_->collective(collective, group.world_ranks, whole_bytes(group)));
  std::vector<int64_t> bytes;
  for (const LocalCall& call : group.calls) bytes.push_back(call.bytes);
  return links_->collective(group.world_ranks, bytes, rounds_of(collective, group.size()));
}

bool LocalState::spin(const std::atomic<int64_t>& counter, int64_t target) const {
  if (!may_spin_) return false;
  const Clock::time_point end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (counter.load(std::memory_order_acquire) >= target) return true;
      pause_briefly();
    }
  } while (Clock::now() < end && !aborted());
  return false;
}

// Sleeper: announces itself, then reads the counter. Waker: moves the counter, then checks for sleepers. Both are
// sequentially consistent, so one of them sees the other.
void LocalState::sleep(const std::atomic<int64_t>& counter, int64_t target, double until) {
  Lot& lot = lot_of(&counter);
  MutexLock lock(lot.mutex);
  lot.sleepers.fetch_add(1);
  for (double left = until - now(); left > 0 && counter.load() < target && !aborted_.load(); left = until - now()) {
    if (left < kFarAway) lot.changed.wait_for(lot.mutex, std::chrono::duration<double>(left));
    else lot.changed.wait(lot.mutex);
  }
  lot.sleepers.fetch_sub(1);
}

void LocalState::advance(std::atomic<int64_t>& counter, int64_t by) {
  if (virtual_time_) return virtual_time_->advance(counter, by);
  Lot& lot = lot_of(&counter);
  counter.fetch_add(by);  // from now on the owner of `counter` may destroy it
  if (lot.sleepers.load() == 0) return;
  { MutexLock lock(lot.mutex); }
  lot.changed.notify_all();
}

void LocalState::post(int receiver, const Address& address, at::Tensor message, Time there) {
  Mailbox& box = mailboxes_[receiver];
  {
    MutexLock lock(box.mutex);
    box.queues[address].emplace_back(std::move(message), there);
  }
  advance(box.posted, 1);
}

at::Tensor LocalState::take(int receiver, const Address& address, double& waited) {
  Mailbox& box = mailboxes_[receiver];
  while (true) {
    throw_if_aborted();
    const int64_t seen = box.posted.load(std::memory_order_acquire);
    std::pair<at::Tensor, Time> message;
    {
      MutexLock lock(box.mutex);
      if (auto queue = box.queues.find(address); queue != box.queues.end()) {
        message = std::move(queue->second.front());
        queue->second.pop_front();
        if (queue->second.empty()) box.queues.erase(queue);
      }
    }
    if (message.first.defined()) {
      sleep_until(message.second);
      return std::move(message.first);
    }
    waited += wait_for(box.posted, seen + 1);
  }
}

void LocalState::sleep_until(Time time) const {
  if (virtual_time_) {
    throw_if_aborted();
    return virtual_time_->advance_to(virtual_seconds_of(time));
  }
  for (Time now = Clock::now(); now < time; now = Clock::now()) {
    throw_if_aborted();
    std::this_thread::sleep_for(std::min<Clock::duration>(time - now, kPoll));
  }
}

std::shared_ptr<LocalGroup> LocalState::group(int64_t parent, const std::vector<int>& world_ranks, int64_t occurrence) {
  MutexLock lock(groups_mutex_);
  const auto [place, is_new] = foundings_.try_emplace({parent, world_ranks, occurrence});
  Founding& founding = place->second;
  if (is_new)
    founding = {std::make_shared<LocalGroup>(next_group_++, world_ranks), static_cast<int>(world_ranks.size())};
  std::shared_ptr<LocalGroup> group = founding.group;
  if (--founding.members_missing == 0) foundings_.erase(place);
  return group;
}

}  // namespace trireme
