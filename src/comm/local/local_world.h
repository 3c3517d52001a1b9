// Backend `local`: workers are threads of one process, collectives read and add each other's buffers in place.
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

/// The meeting place of `size` worker threads. Thread-safe; outlives its communicators.
class LocalWorld {
 public:
  /// `links`: slow transfers down to those of such links; null: they are as quick as memory.
  explicit LocalWorld(int size, std::shared_ptr<EmulatedLinks> links = nullptr);
  /// Backend `virtual`: ranks take turns on the clocks of `time`, which is of so many. A rank is the thread that asks
  /// for its communicator, waits there for the others, and lives as long as the communicator, which that thread lets go
  /// of.
  LocalWorld(int size, std::shared_ptr<VirtualTime> time);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  int size() const;

  /// The communicator of one rank, over all ranks. To be asked for once per rank.
  std::unique_ptr<Communicator> communicator(int rank);

  /// For ranks that stand for processes: what they start to move goes on beside their work, as between processes.
  /// Before any communicator.
  void move_beside_computing();

  /// First reason wins; wakes every waiting rank.
  void abort(const std::string& reason);
  bool aborted() const;
  std::string abort_reason() const;

  /// Blocks this thread until `counter >= target`, spinning briefly and then sleeping; throws a run error when aborted.
  /// `counter` must be advanced with `advance`. Returns the seconds waited. With these two, parts of the runtime that
  /// share memory (one-pass reduce and update) wait for each other under the same rules as the collectives. Returns
  /// also when now() has come to `until`. `what`: what is waited for, in the message about virtual ranks that wait for
  /// each other for ever.
  double wait_for(const std::atomic<int64_t>& counter, int64_t target,
                  double until = std::numeric_limits<double>::infinity(), const char* what = "the others");
  void advance(std::atomic<int64_t>& counter, int64_t by = 1);
  /// As Communicator::now().
  double now() const;

 private:
  std::shared_ptr<LocalState> state_;  // shared with the communicators
};

}  // namespace trireme
