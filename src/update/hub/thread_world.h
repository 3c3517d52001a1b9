// Replicas that exchange through the memory of one process, each on a thread of its own, in real time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/emulated_links.h"
#include "comm/local/local_world.h"
#include "update/hub/shard_host.h"

namespace trireme {

/// Collectives are those of comm/local, each kind in a world of its own.
class ThreadWorld final : public HubWorld {
 public:
  /// `server`: null where the policy has none; outlives this. `links`: slow exchanges down to such links; they have one
  /// worker more than there are replicas, the last one is the connection of the machine that holds the server. Null: as
  /// quick as memory.
  explicit ThreadWorld(int replicas, ShardServer* server = nullptr, std::shared_ptr<EmulatedLinks> links = nullptr);
  ~ThreadWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override;

 private:
  const std::shared_ptr<EmulatedLinks> links_;
  LocalWorld exchange_;  ///< over the links
  LocalWorld overlap_;   ///< over the links, for the replicas' second threads
  LocalWorld control_;   ///< without links
  std::optional<ShardHost> host_;
  std::vector<std::unique_ptr<Hub>> hubs_;  ///< last: their threads end first
};

}  // namespace trireme
