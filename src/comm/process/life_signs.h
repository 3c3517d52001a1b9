// Whether the other ranks are alive, and where they stand, through the shared keys.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/flight_recorder.h"
#include "comm/process/transport.h"
#include "comm/process/world_options.h"

namespace trireme {

/// Every rank writes its key several times a second, whatever its program does. Rank 0 reads those of all others and
/// the others that of rank 0, so the keys' keeper has little to do; who does not reach the keys at all has lost rank 0,
/// which keeps them. Payloads on slow links delay nobody's sign: the keys have connections of their own. Where they
/// have not (a file) nobody watches. Thread-safe.
class LifeSigns {
 public:
  /// As those of Connections. Where ends are not seen signs have the process, and one of this machine that is gone is
  /// missed at once.
  LifeSigns(const WorldOptions& options, bool keys_show_life, bool ends_are_seen,
            std::shared_ptr<const FlightRecorder> recorder);

  /// Shows the own sign and looks at those of others, at most every quarter of a second: on the thread that
  /// communicates with the keys.
  void exchange(KeyStore& keys);

  /// No sign is to be expected of this rank any more. Waits a moment, until its key says so.
  void leave();

  /// On one thread, several times a second: why the world must end; "": nobody is missed. `answers`: of AbortKeeper.
  /// `gone`: ranks whose connection has ended, who are no longer expected to live.
  std::string silence(uint64_t answers, const std::vector<bool>& gone);

  struct Sign {
    uint64_t beats = 0;        ///< 0: nothing was heard
    bool left = false;         ///< none will be
    std::string process = {};  ///< where it is, and which; "-": not said
    uint64_t progress = 0;     ///< changes with whatever its program does, and all the time in LongWork
    std::string standing = {};
  };
  /// A recent one of any rank; the last that was heard if the keys do not answer soon.
  Sign ask(int rank);
  /// The last that was heard, without waiting.
  Sign heard(int rank) const;

 private:
  bool is_watched(int rank) const { return options_.rank == 0 ? rank != 0 : rank == 0; }
  std::string missed(const std::string& whom, int rank, double seconds) const;
  std::string last_seen(int rank) const;
  bool say_goodbye(KeyStore& keys);

  const WorldOptions options_;
  const bool watches_;
  const std::string process_;  ///< this rank's, for its signs
  const std::shared_ptr<const FlightRecorder> recorder_;

  mutable Mutex mutex_;
  ConditionVariable heard_anew_;
  std::vector<Sign> heard_ TRIREME_GUARDED_BY(mutex_);  // by rank
  std::set<int> asked_ TRIREME_GUARDED_BY(mutex_), answered_ TRIREME_GUARDED_BY(mutex_);
  bool leaving_ TRIREME_GUARDED_BY(mutex_) = false, has_left_ TRIREME_GUARDED_BY(mutex_) = false;

  // of the thread that communicates with the keys
  double exchanged_ = 0;
  uint64_t beats_ = 0;

  // of the thread that calls silence()
  SilenceMeter keys_;
  std::vector<SilenceMeter> ranks_;
  uint64_t answers_ = 0;
};

}  // namespace trireme
