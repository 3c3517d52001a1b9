// Holds a parameter server's shards in one process with its visitors: threads of replicas, or threads that represent
// replicas in other processes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/local/emulated_links.h"
#include "comm/local/local_world.h"
#include "update/hub/visits.h"

namespace trireme {

/// Serves one visitor per shard at a time, in real and in modelled time. A request that the server makes wait is passed
/// to it again after every other visit of the shard and at the deadline. Thread-safe.
class ShardHost {
 public:
  /// `server` and `world` must outlive this object. Visitors wait in `world`; its abort ends their waits. `start`: the
  /// world's now() at the start of the server's clock. `ended` returns why the run has ended, or ""; it is polled
  /// several times a second. Null in modelled time, where an abort reaches every wait.
  ShardHost(ShardServer& server, LocalWorld& world, double start, std::function<std::string()> ended);

  /// Blocks until the request is answered. `idle_seconds`: time until its turn came or, if the server made it wait,
  /// until it was answered.
  Reply serve(int shard, int replica, const Request& request, double& idle_seconds);

 private:
  /// A request that the server makes wait. Lives on its visitor's stack.
  struct Parked {
    int replica;
    const Request& request;
    std::optional<Reply> reply;
    std::atomic<int64_t> answers{0};
  };
  struct Shard {
    Mutex mutex;
    std::vector<Parked*> parked TRIREME_GUARDED_BY(mutex);  // in order of arrival
  };

  double now() const { return world_.now() - start_; }
  void fail_if_ended(int replica) const;
  /// Passes the shard's waiting requests to the server again, until none is answered.
  void offer_parked(int shard, Shard& place) TRIREME_REQUIRES(place.mutex);
  void wait_for_answer(int shard, Shard& place, Parked& parked) TRIREME_REQUIRES(place.mutex);

  ShardServer& server_;
  LocalWorld& world_;
  const double start_;
  const std::function<std::string()> ended_;
  std::vector<Shard> shards_;
};

/// Returns the Visits of a replica in the host's process. `links`: null, or the links between their workers `replica`
/// and `server` that requests and replies use.
std::unique_ptr<Visits> visits_in_memory(int replica, ShardHost& host, EmulatedLinks* links = nullptr, int server = 0);

}  // namespace trireme
