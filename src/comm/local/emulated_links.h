// Links between the threads of one process as slow as those between machines: transfers take at least as long as they
// would there.
//
// Every worker has one connection to all others, full duplex. A message leaves when the sender's and the receiver's
// connection are free and takes them bytes / bandwidth; it arrives a latency later. Transfers of one worker wait for
// each other, so that many at once share its connection. A collective takes the bytes of comm/formulas.h on each
// member's connection, and as many latencies as the better of a ring and of halving and doubling has rounds (Thakur,
// Rabenseifner, Gropp, 2005). Barriers cost nothing.
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

/// How the links' speed changes while a run goes on.
struct LinkSchedule {
  LinkSpeed at_first;
  struct Change {
    int64_t at_step = 0;  ///< 0-based: before this step of the run
    LinkSpeed speed;
  };
  std::vector<Change> changes;  ///< by step, ascending
};

/// Rounds of messages of a collective of n ranks.
int rounds_of(Collective collective, int n);

/// Thread-safe.
class EmulatedLinks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EmulatedLinks(int workers, LinkSchedule schedule);

  /// A worker begins this step of the run.
  void begin_step(int64_t step);
  LinkSpeed speed() const;

  /// When a message that is sent now will be there. Ranks are those of the world.
  Time message(int from, int to, int64_t bytes);
  /// When all will be through with a collective that begins now. `bytes[i]` leave `ranks[i]`.
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
