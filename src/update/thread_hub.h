// Replicas that exchange through the memory of one process, each on a thread of its own, in real time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/local/emulated_links.h"
#include "comm/local/local_world.h"
#include "update/hub.h"

namespace trireme {

class ThreadHub;

/// Collectives are those of comm/local; a parameter server's shard is a mutex. Exchanges that go on meanwhile have a thread per replica.
class ThreadWorld final : public HubWorld {
 public:
  /// `server`: null where the policy has none; outlives this. `links`: slow exchanges down to such links; they have one worker more than
  /// there are replicas, the last one is the connection of the machine that holds the server. Null: as quick as memory.
  explicit ThreadWorld(int replicas, ShardServer* server = nullptr, std::shared_ptr<EmulatedLinks> links = nullptr);
  ~ThreadWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override;

 private:
  friend class ThreadHub;

  /// A request that the server has put off; lives on its replica's stack.
  struct Parked {
    int replica;
    const Request& request;
    std::optional<Reply> reply;
  };
  struct Shard {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Parked*> parked;  // guarded by mutex, in order of arrival
  };

  double now() const;
  /// Puts the shard's parked requests again, until none is answered. With the shard's lock.
  void offer_parked(int shard);
  Reply serve(int shard, int replica, const Request& request, double& idle_seconds);

  ShardServer* const server_;
  const std::shared_ptr<EmulatedLinks> links_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  LocalWorld exchange_;  ///< over the links
  LocalWorld overlap_;   ///< over the links, for the replicas' second threads
  LocalWorld control_;   ///< without links: agreement, and what is not to be metered
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<ThreadHub>> hubs_;  ///< last: their threads end first
};

}  // namespace trireme
