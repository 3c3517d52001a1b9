// A clock for threads that take turns. Exactly one thread runs at a time, always the one with the earliest clock (of
// equal clocks the lowest number). So a run with many replicas is a function of its input, whatever the speed of the
// machine.
#pragma once

#include <deque>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace trireme {

/// Each runner calls with its own number from its own thread. The running thread may also call wake and time for other
/// runners. Data that only running threads access need no lock. Every call except add, wake and abort throws a run
/// error after an abort.
class VirtualClock {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// `kind` is the runners' name in messages.
  explicit VirtualClock(int runners, std::string kind = "replica");

  /// Adds a runner whose clock equals that of the caller, `by`. Returns its number. The new runner enters when its
  /// thread reaches enter(). If its turn comes earlier, the others wait for it.
  int add(int by);

  /// Returns at this runner's turn. No runner runs before all initial runners have entered.
  void enter(int runner);
  void leave(int runner);

  double time(int runner) const;
  /// Moves the caller's clock forwards (or leaves it unchanged), and lets earlier runners run first.
  void advance_to(int runner, double time);
  /// Blocks the caller until it is woken or its clock reaches `deadline`. `waits_for` names what it waits for in the
  /// error about runners that wait for each other for ever (a run error for all). If it is empty, this runner's wait
  /// does not cause that error.
  void block(int runner, std::string waits_for, double deadline = kNever);
  /// Unblocks runner `blocked`, which continues at `time`. Throws an internal error if it is not blocked. Does nothing
  /// after an abort.
  void wake(int blocked, double time);

  void abort(const std::string& reason);

 private:
  struct Runner {
    int name = 0;  ///< its own number, or the name of the runner that added it
    double time = 0;
    bool blocked = false, entered = false;
    double deadline = kNever;
    std::string waits_for;
    ConditionVariable turn;
  };
  void give_turn_away(int runner) TRIREME_REQUIRES(mutex_);
  void choose_next() TRIREME_REQUIRES(mutex_);
  void fail_if_aborted(int runner) const TRIREME_REQUIRES(mutex_);
  void end_all(const std::string& reason) TRIREME_REQUIRES(mutex_);

  const std::string kind_;
  mutable Mutex mutex_;
  std::deque<Runner> runners_ TRIREME_GUARDED_BY(mutex_);
  size_t at_first_ = 0;  ///< number of runners that must enter before any runs
  std::set<std::pair<double, int>> ready_ TRIREME_GUARDED_BY(mutex_);
  size_t entered_ TRIREME_GUARDED_BY(mutex_) = 0;
  int running_ TRIREME_GUARDED_BY(mutex_) = -1;  ///< -1: none
  bool aborted_ TRIREME_GUARDED_BY(mutex_) = false;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
