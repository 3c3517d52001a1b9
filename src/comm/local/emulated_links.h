// Emulated network links between threads of one process: transfers take at least as long as they would between
// machines.
//
// Every worker has one full-duplex connection to all others. A message is sent when the sender's and the receiver's
// connections are free, and occupies both for bytes / bandwidth. It arrives one latency later. Transfers of one worker
// wait for each other, so that concurrent ones share its connection. A collective occupies each member's connection for
// the bytes of comm/formulas.h. It takes as many latencies as the better of ring and recursive halving and doubling has
// rounds (Thakur, Rabenseifner, Gropp, 2005). Barriers cost nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "comm/local/local_group.h"

namespace trireme {

struct LinkSpeed {
  double bandwidth = 0;  ///< bytes/s in each direction; 0: no limit
  double latency = 0;    ///< seconds
};

/// How the links' speed changes during a run.
struct LinkSchedule {
  LinkSpeed at_first;
  struct Change {
    int64_t at_step = 0;  ///< 0-based; the change happens before this step of the run
    LinkSpeed speed;
  };
  std::vector<Change> changes;  ///< ascending by step
};

/// Returns the number of message rounds of a collective of n ranks.
int rounds_of(Collective collective, int n);

/// Thread-safe.
class EmulatedLinks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EmulatedLinks(int workers, LinkSchedule schedule);

  /// Declares that a worker begins this step of the run.
  void begin_step(int64_t step);
  LinkSpeed speed() const;

  /// Returns the arrival time of a message that is sent now. Ranks are world ranks.
  Time message(int from, int to, int64_t bytes);
  /// Returns the end time of a collective that begins now. `bytes[i]` leave `ranks[i]`.
  Time collective(std::span<const int> ranks, std::span<const int64_t> bytes, int rounds);

 private:
  Time::duration seconds(double s) const;
  Time::duration transfer(int64_t bytes) const TRIREME_REQUIRES(mutex_);

  mutable Mutex mutex_;
  const LinkSchedule schedule_;
  size_t next_change_ TRIREME_GUARDED_BY(mutex_) = 0;
  LinkSpeed speed_ TRIREME_GUARDED_BY(mutex_);
  std::vector<Time> out_free_ TRIREME_GUARDED_BY(mutex_), in_free_ TRIREME_GUARDED_BY(mutex_);  // by worker
};

}  // namespace trireme
