// Backend `local`: workers are threads of one process; collectives read and add each other's buffers in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "trireme/communicator.h"

namespace trireme {

class EmulatedLinks;
class LocalState;
class VirtualTime;

/// The shared world of `size` worker threads. Thread-safe. Must outlive its communicators.
class LocalWorld {
 public:
  /// `links` slows transfers down to the speed of these links. Null: transfers run at memory speed.
  explicit LocalWorld(int size, std::shared_ptr<EmulatedLinks> links = nullptr);
  /// Backend `virtual`: ranks take turns on the clocks of `time`, which must have `size` ranks. A rank is the thread
  /// that calls communicator(), which waits for the other ranks. It exists as long as the communicator, which the same
  /// thread must destroy.
  LocalWorld(int size, std::shared_ptr<VirtualTime> time);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  int size() const;

  /// Returns the communicator of one rank, over all ranks. Call it once per rank.
  std::unique_ptr<Communicator> communicator(int rank);

  /// For ranks that represent processes: transfers run beside the ranks' computation, as between processes. Call it
  /// before any communicator is made.
  void move_beside_computing();

  /// The first reason is kept. Wakes every waiting rank.
  void abort(const std::string& reason);
  bool aborted() const;
  std::string abort_reason() const;

  /// Blocks this thread until `counter >= target` or now() reaches `until`; spins briefly and then sleeps. `counter`
  /// must be advanced with `advance`. Returns the seconds waited. Throws a run error if aborted. `what` names the
  /// awaited event, for the error about virtual ranks that wait for each other for ever. With these two functions,
  /// parts of the runtime that share memory (one-pass reduce and update) wait for each other under the same rules as
  /// the collectives.
  double wait_for(const std::atomic<int64_t>& counter, int64_t target,
                  double until = std::numeric_limits<double>::infinity(), const char* what = "the others");
  void advance(std::atomic<int64_t>& counter, int64_t by = 1);
  /// See Communicator::now().
  double now() const;

 private:
  std::shared_ptr<LocalState> state_;  // shared with the communicators
};

}  // namespace trireme
