// A clock for threads that take turns: exactly one runs at a time, always the one whose own clock is earliest (of equal
// ones the lowest number), so that a run with many replicas is a function of its input whatever the machine does.
#pragma once

#include <deque>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace trireme {

/// Each runner calls with its own number from its own thread; wake and time also for others, by the one that runs. What
/// only running threads touch needs no lock. Every call but add, wake and abort throws a run error after an abort.
class VirtualClock {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// `kind`: what a runner is, for messages.
  explicit VirtualClock(int runners, std::string kind = "replica");

  /// One more runner, whose clock is the caller's, `by`; returns its number. It enters when its thread gets to it; who
  /// waits for it waits.
  int add(int by);

  /// Returns when it is this runner's turn; nobody runs before all have entered.
  void enter(int runner);
  void leave(int runner);

  double time(int runner) const;
  /// Moves the caller's clock, forwards or not at all, and lets those run that come before it now.
  void advance_to(int runner, double time);
  /// Until somebody wakes the caller, or its clock has come to `deadline`. `waits_for` is for the message about runners
  /// that wait for each other for ever, which is a run error for all; empty: for nobody, it may be left so.
  void block(int runner, std::string waits_for, double deadline = kNever);
  /// Runner `blocked` goes on at `time`; once. Of one that is not blocked (any more) an error. Does nothing after an
  /// abort.
  void wake(int blocked, double time);

  void abort(const std::string& reason);

 private:
  struct Runner {
    int name = 0;  ///< its own number, or that of who added it
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
  size_t at_first_ = 0;  ///< runners that enter before any runs
  std::set<std::pair<double, int>> ready_ TRIREME_GUARDED_BY(mutex_);
  size_t entered_ TRIREME_GUARDED_BY(mutex_) = 0;
  int running_ TRIREME_GUARDED_BY(mutex_) = -1;  ///< -1: nobody
  bool aborted_ TRIREME_GUARDED_BY(mutex_) = false;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
