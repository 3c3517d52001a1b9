// Signs of life of the other ranks and where each rank is, through the shared keys.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/flight_recorder.h"
#include "comm/process/world_options.h"
#include "trireme/backend.h"

namespace trireme {

/// Every rank writes its key several times a second, whatever its program does. Rank 0 reads the keys of all other
/// ranks, and they read rank 0's, so the host of the keys has little work. A rank that cannot reach the keys has lost
/// rank 0, which hosts them. Payloads on slow links do not delay a sign, because the keys have connections of their
/// own. If they have none (a store file), ranks do not watch each other. Thread-safe.
class LifeSigns {
 public:
  /// `keys_show_life` and `ends_are_seen` are those of Connections. If ends are not seen, signs name the rank's
  /// process; then the end of a process on this machine is noticed at once.
  LifeSigns(const WorldOptions& options, bool keys_show_life, bool ends_are_seen,
            std::shared_ptr<const FlightRecorder> recorder);

  /// Writes this rank's sign and reads the other ranks' signs, at most every quarter of a second. Called on the thread
  /// that communicates with the keys.
  void exchange(KeyStore& keys);

  /// Declares that this rank will give no more signs. Waits briefly until its key says so.
  void leave();

  /// Returns why the world must end, or "" if no rank is missed. Called on one thread, several times a second.
  /// `answers` is AbortKeeper's. `gone` marks ranks whose connection has ended; no signs are expected of them.
  std::string silence(uint64_t answers, const std::vector<bool>& gone);

  struct Sign {
    uint64_t beats = 0;        ///< 0: no sign has been read
    bool left = false;         ///< true if no more signs will come
    std::string process = {};  ///< machine and number of the rank's process; "-": not given
    uint64_t progress = 0;     ///< changes with every action of the rank's program, and continuously during LongWork
    std::string standing = {};
  };
  /// Returns a recent sign of any rank, or the last known one if the keys do not answer soon.
  Sign ask(int rank);
  /// Returns the last known sign of a rank, without waiting.
  Sign heard(int rank) const;

 private:
  bool is_watched(int rank) const { return options_.rank == 0 ? rank != 0 : rank == 0; }
  std::string missed(const std::string& name, int rank, double seconds) const;
  std::string last_seen(int rank) const;
  bool say_goodbye(KeyStore& keys);

  const WorldOptions options_;
  const bool watches_;
  const std::string process_;  ///< this rank's process, for its signs
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
