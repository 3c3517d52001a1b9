// The machine that holds a parameter server's shards, in one process with those who visit: threads of replicas, or
// threads that stand for replicas in other processes.
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

/// Serves one visitor per shard at a time, in real and in virtual time. Requests that the server puts off are put again
/// after every other visit of the shard and at its deadline. Thread-safe.
class ShardHost {
 public:
  /// `server` and `world` outlive it; visitors wait in `world`, whose abort ends them. `start`: what the world's now()
  /// showed at the start of the server's clock. `ended`: why the run has ended, "" while it has not; looked at several
  /// times a second. Null in virtual time, where an abort reaches every wait.
  ShardHost(ShardServer& server, LocalWorld& world, double start, std::function<std::string()> ended);

  /// Blocks until the request is answered. `idle_seconds`: until its turn came, or until it was put off no more.
  Reply serve(int shard, int replica, const Request& request, double& idle_seconds);

 private:
  /// A request that was put off. Lives on its visitor's stack.
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
  /// Puts the shard's parked requests again, until none is answered.
  void offer_parked(int shard, Shard& place) TRIREME_REQUIRES(place.mutex);
  void wait_for_answer(int shard, Shard& place, Parked& parked) TRIREME_REQUIRES(place.mutex);

  ShardServer& server_;
  LocalWorld& world_;
  const double start_;
  const std::function<std::string()> ended_;
  std::vector<Shard> shards_;
};

/// Of a replica whose memory is the host's. `links`: null, or what requests and replies travel over, between their
/// workers `replica` and `server`.
std::unique_ptr<Visits> visits_in_memory(int replica, ShardHost& host, EmulatedLinks* links = nullptr, int server = 0);

}  // namespace trireme
