// Replicas that exchange through the memory of one process, each on its own thread, in real time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/local/emulated_links.h"
#include "comm/local/local_world.h"
#include "update/hub/hub_world.h"
#include "update/hub/shard_host.h"

namespace trireme {

/// Collectives are those of comm/local. Each kind has a world of its own.
class ThreadWorld final : public HubWorld {
 public:
  /// `server`: null if the policy has none; must outlive this object. `links` slows exchanges down to the speed of
  /// these links. They have one worker more than there are replicas: the last one is the connection of the machine that
  /// holds the server. Null: exchanges run at memory speed.
  explicit ThreadWorld(int replicas, ShardServer* server = nullptr, std::shared_ptr<EmulatedLinks> links = nullptr);
  ~ThreadWorld() override;

  int replicas() const override { return int(hubs_.size()); }
  Hub& hub(int replica) override;
  void abort(const std::string& reason) override;

 private:
  const std::shared_ptr<EmulatedLinks> links_;
  LocalWorld exchange_;  ///< with the links
  LocalWorld overlap_;   ///< with the links, for the replicas' second threads
  LocalWorld control_;   ///< without links
  std::optional<ShardHost> host_;
  std::vector<std::unique_ptr<Hub>> hubs_;  ///< last member: their threads end first
};

}  // namespace trireme
