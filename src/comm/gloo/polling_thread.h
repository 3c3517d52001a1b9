// The policy under which the system runs gloo's own thread.
//
// That thread polls without a pause while another thread holds the lock of a ready connection. If it has taken that
// thread's core, both wait for the scheduler's next tick, up to 4 ms for each message. Under SCHED_BATCH (sched(7)) it
// does not interrupt other threads when it wakes. But then it also waits for each turn of other programs on the core,
// so where those use much of this process' cores it runs under the usual policy.
#pragma once

#include <sys/types.h>

#include <set>

namespace trireme {

/// Not thread-safe.
class PollingThread {
 public:
  /// From now on threads that the calling thread starts have SCHED_BATCH, until found(). Does nothing if the user has
  /// chosen another policy than the usual one for this process.
  PollingThread();
  ~PollingThread() { found(); }
  PollingThread(const PollingThread&) = delete;
  PollingThread& operator=(const PollingThread&) = delete;

  /// Gloo's thread was started. Call it in the thread of the constructor.
  void found();
  /// Chooses the policy by what other programs have used of this process' cores since the last choice. Call it often;
  /// it looks twice per second. May be called by another thread.
  void look();

 private:
  bool starting_ = false;
  std::set<pid_t> batch_threads_before_;
  pid_t thread_ = 0;  ///< gloo's; 0: its policy is not chosen here
  double looked_at_ = 0, busy_ = 0, own_ = 0;
};

}  // namespace trireme
