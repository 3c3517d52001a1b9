#include "comm/virtual/virtual_clock.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

VirtualClock::VirtualClock(int runners, std::string kind) : kind_(std::move(kind)), at_first_(size_t(runners)) {
  for (int r = 0; r < runners; ++r) {
    runners_.emplace_back().name = r;
    ready_.emplace(0.0, r);
  }
}

int VirtualClock::add(int by) {
  MutexLock lock(mutex_);
  const int number = int(runners_.size());
  Runner& added = runners_.emplace_back();
  added.name = runners_[size_t(by)].name;
  added.time = runners_[size_t(by)].time;
  ready_.emplace(added.time, number);
  return number;
}

double VirtualClock::time(int runner) const {
  MutexLock lock(mutex_);  // after an abort no runner has the turn
  return runners_[size_t(runner)].time;
}

void VirtualClock::fail_if_aborted(int runner) const {
  if (aborted_)
    throw StoppedError(
        {fmt::format("{} {}", kind_, runners_[size_t(runner)].name), "on the modelled clock", reason_, ""});
}

void VirtualClock::end_all(const std::string& reason) {
  if (!aborted_) reason_ = reason;
  aborted_ = true;
  for (Runner& runner : runners_) runner.turn.notify_all();
}

void VirtualClock::abort(const std::string& reason) {
  MutexLock lock(mutex_);
  end_all(reason);
}

void VirtualClock::choose_next() {
  running_ = -1;
  if (!ready_.empty()) {
    running_ = ready_.begin()->second;
    ready_.erase(ready_.begin());
    Runner& next = runners_[size_t(running_)];
    if (next.blocked) next.time = next.deadline;  // no runner woke it
    next.blocked = false;
    next.turn.notify_one();
    return;
  }
  std::string waiting;
  for (size_t r = 0; r < runners_.size() && waiting.size() < 200; ++r)
    if (runners_[r].blocked && !runners_[r].waits_for.empty())
      waiting += fmt::format("{}{} {} waits for {}", waiting.empty() ? "" : ", ", kind_, runners_[r].name,
                             runners_[r].waits_for);
  if (!waiting.empty()) end_all(fmt::format("no {} can continue: {}", kind_, waiting));
}

void VirtualClock::give_turn_away(int runner) {
  choose_next();
  Runner& me = runners_[size_t(runner)];
  while (running_ != runner && !aborted_) me.turn.wait(mutex_);
  fail_if_aborted(runner);
}

void VirtualClock::enter(int runner) {
  MutexLock lock(mutex_);
  fail_if_aborted(runner);
  Runner& me = runners_[size_t(runner)];
  check_internal(!me.entered, "a runner enters the modelled clock once");
  me.entered = true;
  if (size_t(runner) < at_first_ && ++entered_ == at_first_) return give_turn_away(runner);
  while (running_ != runner && !aborted_) me.turn.wait(mutex_);
  fail_if_aborted(runner);
}

void VirtualClock::leave(int runner) {
  MutexLock lock(mutex_);
  fail_if_aborted(runner);
  choose_next();
}

void VirtualClock::advance_to(int runner, double time) {
  MutexLock lock(mutex_);
  fail_if_aborted(runner);
  Runner& me = runners_[size_t(runner)];
  check_internal(running_ == runner, "only the runner that has the turn moves its clock");
  check_internal(time >= me.time, "a modelled clock goes forwards");
  me.time = time;
  if (ready_.empty() || std::pair(time, runner) < *ready_.begin()) return;
  ready_.emplace(time, runner);
  give_turn_away(runner);
}

void VirtualClock::block(int runner, std::string waits_for, double deadline) {
  MutexLock lock(mutex_);
  fail_if_aborted(runner);
  Runner& me = runners_[size_t(runner)];
  check_internal(running_ == runner, "only the runner that has the turn waits");
  me.blocked = true;
  me.waits_for = std::move(waits_for);
  me.deadline = deadline;
  if (deadline < kNever) ready_.emplace(deadline, runner);
  give_turn_away(runner);
}

void VirtualClock::wake(int blocked, double time) {
  MutexLock lock(mutex_);
  if (aborted_) return;
  Runner& other = runners_[size_t(blocked)];
  check_internal(other.blocked, "only a waiting runner is woken");
  if (other.deadline < kNever) ready_.erase({other.deadline, blocked});
  other.blocked = false;
  other.time = time;
  ready_.emplace(time, blocked);
}

}  // namespace trireme
